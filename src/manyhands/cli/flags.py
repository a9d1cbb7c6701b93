"""Flags and results that commands share: configs, synthetic data, JSON files."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

from manyhands.atomic import atomic_file
from manyhands.config.commands import SyntheticDataConfig
from manyhands.config.resolve import resolve_train_config
from manyhands.config.schema.command_line import merge_trees, read_flags
from manyhands.config.schema.decoding import Decoder, Tree
from manyhands.config.schema.help import help_text
from manyhands.config.train import TrainConfig
from manyhands.errors import ConfigError, HelpShown


class CommandConfig(Protocol):
    """What a command is configured by: a dataclass that knows its faults."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def faults(self) -> Sequence[str]:
        """Everything about these values that cannot work."""


Config = TypeVar("Config", bound=CommandConfig)


def read_config(kind: type[Config], usage: str, arguments: Sequence[str]) -> Config:
    """The config that arguments describe; raises ConfigError with every fault found."""
    command_line = read_flags(arguments)
    if "help" in command_line.switches:
        print(help_text(kind, usage))
        raise HelpShown
    decoder = Decoder(kind)
    if "print_config" in command_line.switches:
        decoder.faults.append("--print_config is a flag of manyhands train. Remove it")
    return decode_config(kind, decoder, command_line.tree)


def decode_config(kind: type[Config], decoder: Decoder, tree: Tree) -> Config:
    """A config from raw values, without a fault."""
    config = decoder.section(kind, tree)
    faults = decoder.faults or [*config.faults()]
    if faults:
        raise ConfigError(faults)
    return config


def write_results(file: Path | None, results: Mapping[str, Any] | Sequence[Any]) -> None:
    """Write results for programs, if a file was named."""
    if file is not None:
        with atomic_file(file) as scratch:
            scratch.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


def read_command_flags(
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
        raise HelpShown
    decoder = Decoder(kind)
    if "print_config" in command_line.switches:
        decoder.faults.append("--print_config is a flag of manyhands train. Remove it")
    names, tree = {item.name for item in fields(kind)}, command_line.tree
    own = decode_config(kind, decoder, {name: tree[name] for name in tree if name in names})
    return own, {name: tree[name] for name in tree if name not in names}


NAMING = ("repo_id", "root", "mix")
"""Flags of --dataset that say which data there is."""
SYNTHETIC = {"repo_id": None, "root": "made-up", "mix": None}

Described = TypeVar("Described", bound=SyntheticDataConfig)


def read_with_synthetic(
    kind: type[Described], usage: str, arguments: Sequence[str]
) -> tuple[Described, TrainConfig]:
    """A command's own flags, and the run they are about; without data it names no dataset."""
    own, tree = split_flags(kind, usage, arguments)
    section = tree.get("dataset")
    named = [name for name in NAMING if isinstance(section, dict) and name in section]
    if named and own.named_shapes:
        raise ConfigError(
            [
                f"--{name} describes synthetic data and has no effect with --dataset.{named[0]}"
                for name in own.named_shapes
            ]
        )
    # A file may name a dataset as well; flags that describe another one win over it.
    is_made_up = not named and ("config_path" not in tree or bool(own.named_shapes))
    return own, (without_dataset(tree) if is_made_up else resolve_train_config(tree))


def without_dataset(tree: Tree) -> TrainConfig:
    """The run that flags ask for, on no dataset."""
    config = resolve_train_config(merge_trees(tree, {"dataset": SYNTHETIC}))
    return replace(config, dataset=replace(config.dataset, root=None))
