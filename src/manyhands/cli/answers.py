"""What all commands do alike: flags to a config, results to a file."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

from manyhands.atomic import whole_file
from manyhands.config.flags import read_flags
from manyhands.config.help import help_text
from manyhands.config.schema import Decoder, Tree
from manyhands.errors import Answered, ConfigError


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
        raise Answered
    decoder = Decoder(kind)
    if "print_config" in command_line.switches:
        decoder.faults.append("--print_config is a flag of manyhands train. Remove it")
    return decoded(kind, decoder, command_line.tree)


def decoded(kind: type[Config], decoder: Decoder, tree: Tree) -> Config:
    """A config from raw values, without a fault."""
    config = decoder.section(kind, tree)
    faults = decoder.faults or [*config.faults()]
    if faults:
        raise ConfigError(faults)
    return config


def write_results(file: Path | None, results: Mapping[str, Any] | Sequence[Any]) -> None:
    """Write results for programs, if a file was named."""
    if file is not None:
        with whole_file(file) as scratch:
            scratch.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
