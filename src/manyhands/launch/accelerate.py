"""Requests of `accelerate launch` that it does not pass on.

On a CPU, accelerate starts a single process and drops some flags, but its own command line still
contains them. Reading them there gives users what they requested.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from manyhands.config.files.documents import read_document
from manyhands.config.launch.launcher import FULL_PRECISION
from manyhands.errors import EnvironmentFault

DEFAULT_CONFIG = Path("accelerate", "default_config.yaml")
"""What `accelerate config` writes, within the folder of Hugging Face's libraries."""
PROGRAMS = ("accelerate", "accelerate.commands.accelerate_cli")
"""Names of the program, installed or as a module, which a subcommand follows."""
LAUNCHERS = ("accelerate-launch", "accelerate.commands.launch")
"""Names of the program that only launches."""
DROPPED = {
    "gradient_clipping": "--optimizer.grad_clip_norm",
    "zero_stage": "--parallelism.dp_shard=-1",
    "offload_optimizer_device": "--accelerator.fsdp.cpu_offload=true",
    "offload_param_device": "--accelerator.fsdp.cpu_offload=true",
    "deepspeed_config_file": "--parallelism.dp_shard=-1",
}
"""Flags that accelerate passes to DeepSpeed alone, and what to use instead."""


@dataclass(frozen=True)
class AccelerateCommand:
    """An `accelerate launch` command line with its config file."""

    arguments: list[str]
    file: Mapping[str, Any]

    def value(self, name: str) -> str | None:
        """The value of a setting on the command line, else in its file."""
        typed = _value_of(self.arguments, name)
        stored = self.file.get(name)
        return typed if typed is not None or stored is None else str(stored)

    def count(self, name: str) -> int | None:
        """The value of an integer setting."""
        text = self.value(name)
        return int(text) if text and text.isdecimal() else None


def accelerate_command() -> AccelerateCommand | None:
    """The accelerate command that started this process; None if there is none."""
    try:
        return read_command(psutil.Process(os.getppid()).cmdline())
    except psutil.Error:
        return None


def read_command(words: list[str]) -> AccelerateCommand | None:
    """Parse the arguments of a process as an accelerate command; None if it is another one."""
    arguments = _launcher_arguments(words)
    if arguments is None:
        return None
    named = _value_of(arguments, "config_file")
    # As accelerate does: the default file applies unless --cpu is set.
    cache = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    home = Path(os.environ.get("HF_HOME", f"{cache}/huggingface")).expanduser()
    default = None if "--cpu" in arguments else home / DEFAULT_CONFIG
    file = Path(named) if named else default
    return AccelerateCommand(arguments, _read(file) if file else {})


def variables_of(command: AccelerateCommand, has_ranks: bool) -> dict[str, str]:
    """Variables for requests that accelerate does not pass on; raises for unsupported ones."""
    for name, instead in DROPPED.items():
        if _value_of(command.arguments, name) is not None:
            raise EnvironmentFault(f"accelerate launch --{name} has no effect; use {instead}")
    if not has_ranks:
        _reject_dropped(command)
    steps = command.count("gradient_accumulation_steps")
    variables = {"ACCELERATE_GRADIENT_ACCUMULATION_STEPS": str(steps)} if steps else {}
    # YAML reads a bare `no` as false.
    if (command.value("mixed_precision") or "").lower() in ("no", "false"):
        variables[FULL_PRECISION] = "true"
    return variables


def _reject_dropped(command: AccelerateCommand) -> None:
    """Reject requests that accelerate drops when it starts a single process, as on the CPU."""
    shards = command.value("distributed_type") == "FSDP"
    if shards or (command.count("num_machines") or 1) > 1:
        what = "the sharding of its config file" if shards else "its other machines"
        raise EnvironmentFault(
            f"accelerate launch --cpu drops {what}. Remove --cpu and pass --policy.device=cpu to "
            "the training program"
        )


def _launcher_arguments(command: list[str]) -> list[str] | None:
    names = [Path(word).name for word in command[:3]]
    for place, name in enumerate(names):
        if name in PROGRAMS and command[place + 1 : place + 2] == ["launch"]:
            return command[place + 2 :]
        if name in LAUNCHERS:
            return command[place + 1 :]
    return None


def _value_of(arguments: list[str], name: str) -> str | None:
    """The first value of a flag; launcher flags precede the script and its own flags."""
    spellings = (f"--{name}", f"--{name.replace('_', '-')}")
    for place, argument in enumerate(arguments):
        flag, equals, value = argument.partition("=")
        if flag in spellings:
            return value if equals else next(iter(arguments[place + 1 :]), None)
    return None


def _read(path: Path) -> dict[str, Any]:
    try:
        stored = read_document(path)
    except (OSError, ValueError):
        return {}
    return stored if isinstance(stored, dict) else {}
