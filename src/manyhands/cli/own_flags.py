"""Flags of commands that have some of their own beside those of training."""

from collections.abc import Sequence
from dataclasses import fields

from manyhands.cli.answers import Config, decoded
from manyhands.config.flags import read_flags
from manyhands.config.help import help_text
from manyhands.config.resolve import resolve_train_config
from manyhands.config.schema import Decoder, Tree
from manyhands.config.train import TrainConfig
from manyhands.errors import Answered


def read_own_flags(
    kind: type[Config], usage: str, arguments: Sequence[str]
) -> tuple[Config, TrainConfig]:
    """What arguments ask of a command, and the run that it is about."""
    own, tree = split_flags(kind, usage, arguments)
    return own, resolve_train_config(tree)


def split_flags(kind: type[Config], usage: str, arguments: Sequence[str]) -> tuple[Config, Tree]:
    """What arguments ask of a command, and the flags that are about the run."""
    command_line = read_flags(arguments)
    if "help" in command_line.switches:
        print(help_text(kind, usage))
        print(f"\n{help_text(TrainConfig, 'Flags of manyhands train:')}")
        raise Answered
    decoder = Decoder(kind)
    if "print_config" in command_line.switches:
        decoder.faults.append("--print_config is a flag of manyhands train. Remove it")
    names, tree = {item.name for item in fields(kind)}, command_line.tree
    own = decoded(kind, decoder, {name: tree[name] for name in tree if name in names})
    return own, {name: tree[name] for name in tree if name not in names}
