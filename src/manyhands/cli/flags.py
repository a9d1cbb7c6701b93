"""Flags and results common to all commands: configs, synthetic data, JSON files."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

from manyhands.atomic import atomic_file
from manyhands.config.commands.synthetic_data import SyntheticDataConfig
from manyhands.config.resolve import resolve_train_config
from manyhands.config.schema.command_line import CommandLine, merge_trees, read_flags
from manyhands.config.schema.decoding import Decoder, Tree
from manyhands.config.schema.help import ALL, flag_groups, flags_about, help_text
from manyhands.config.train import TrainConfig
from manyhands.errors import ConfigError, HelpShown


class CommandConfig(Protocol):
    """Config of a command: a dataclass that validates itself."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def faults(self) -> Sequence[str]:
        """Return every invalid value."""


Config = TypeVar("Config", bound=CommandConfig)
MORE_HELP = "manyhands train --help"
SWITCH_VALUES = ("true", "false", "yes", "no", "on", "off")
UNDASHED = re.compile(r"[a-z_.]+=")  # How a flag begins that has no dashes.


def read_config(kind: type[Config], usage: str, arguments: Sequence[str]) -> Config:
    """Read the config from arguments; raises ConfigError with every fault found."""
    command_line = read_flags(arguments)
    if "help" in command_line.switches:
        print(help_text(kind, usage, command_line.topic))
        raise HelpShown
    return decode_config(kind, command_line, command_line.tree)


def split_names(
    arguments: Sequence[str], switches: Sequence[str] = ()
) -> tuple[list[str], list[str]]:
    """Split arguments into names, such as those of folders, and flags with their values.

    A name may follow a switch, a flag that is true or false and needs no value.
    """
    names: list[str] = []
    flags: list[str] = []
    for place, argument in enumerate(arguments):
        before = arguments[place - 1] if place else ""
        is_value = before.startswith("--") and "=" not in before
        is_value &= before not in switches or argument.lower() in SWITCH_VALUES
        is_flag = argument.startswith("-") or UNDASHED.match(argument) is not None
        (flags if is_flag or is_value else names).append(argument)
    return names, flags


def decode_config(kind: type[Config], command_line: CommandLine, tree: Tree) -> Config:
    """Decode a config from raw values; raises ConfigError with every fault found."""
    decoder = Decoder(kind)
    if "print_config" in command_line.switches:
        decoder.faults.append("--print_config is a flag of manyhands train. Remove it")
    config = decoder.section(kind, tree)
    faults = decoder.faults or [*config.faults()]
    if faults:
        raise ConfigError(faults)
    return config


def write_results(file: Path | None, results: Mapping[str, Any] | Sequence[Any]) -> None:
    """Write results as JSON, if a file is given."""
    if file is not None:
        with atomic_file(file) as scratch:
            text = json.dumps(finite(results), indent=2, allow_nan=False)
            scratch.write_text(text + "\n", encoding="utf-8")


def finite(value: Any) -> Any:
    """The same values with null for numbers that JSON does not have: NaN and infinite ones."""
    if isinstance(value, Mapping):
        return {key: finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read_command_flags(
    kind: type[Config], usage: str, arguments: Sequence[str]
) -> tuple[Config, TrainConfig]:
    """Read a command's own config, and the config of the run."""
    own, tree = split_flags(kind, usage, arguments)
    return own, resolve_train_config(tree)


def split_flags(kind: type[Config], usage: str, arguments: Sequence[str]) -> tuple[Config, Tree]:
    """Split arguments into a command's own config and the flags of the run."""
    command_line = read_flags(arguments)
    if "help" in command_line.switches:
        print(help_of_both(kind, usage, command_line.topic))
        raise HelpShown
    names, tree = {item.name for item in fields(kind)}, command_line.tree
    own = decode_config(kind, command_line, {name: tree[name] for name in tree if name in names})
    return own, {name: tree[name] for name in tree if name not in names}


def help_of_both(kind: type, usage: str, topic: str) -> str:
    """The --help text of a command that also takes the flags of a run."""
    if not topic:
        return f"{help_text(kind, usage)}\n\nAnd the flags of manyhands train: {MORE_HELP}"
    is_own = topic != ALL and flags_about(flag_groups(kind), topic)
    return help_text(kind if is_own else TrainConfig, usage, topic)


NAMING = ("repo_id", "root", "mix")  # Flags of --dataset that say which data there is.
SYNTHETIC = {"repo_id": None, "root": "synthetic", "mix": None}

Described = TypeVar("Described", bound=SyntheticDataConfig)


def read_with_synthetic(
    kind: type[Described], usage: str, arguments: Sequence[str]
) -> tuple[Described, TrainConfig]:
    """Read a command's own flags and the run; a run on synthetic data names no dataset."""
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
    # A file may name a dataset as well; flags of synthetic data override it.
    is_made_up = not named and ("config_path" not in tree or bool(own.named_shapes))
    if not is_made_up:
        return own, resolve_train_config(tree)
    config = resolve_train_config(merge_trees(tree, {"dataset": SYNTHETIC}))
    return own, replace(config, dataset=replace(config.dataset, root=None))
