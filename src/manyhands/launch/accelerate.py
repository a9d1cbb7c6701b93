"""How many processes `accelerate launch --cpu` was asked for.

On a CPU, accelerate starts a single process and drops --num_processes on the way, but its own
command line still says it. Taking the number from there gives users what they asked for.
"""

import os
from pathlib import Path

import psutil
import yaml

DEFAULT_CONFIG = Path("~/.cache/huggingface/accelerate/default_config.yaml")


def processes_asked_of_accelerate() -> int | None:
    """The --num_processes of the accelerate command that started this process, if one did."""
    try:
        command = psutil.Process(os.getppid()).cmdline()
    except psutil.Error:
        return None
    return num_processes_in(command)


def num_processes_in(command: list[str]) -> int | None:
    """The number of processes an `accelerate launch` command line or its config file names."""
    arguments = _launcher_arguments(command)
    if arguments is None:
        return None
    asked = _value_of(arguments, "num_processes")
    if asked is None:
        file = _value_of(arguments, "config_file")
        asked = _from_file(Path(file) if file else DEFAULT_CONFIG.expanduser())
    return int(asked) if asked and asked.isdecimal() else None


def _launcher_arguments(command: list[str]) -> list[str] | None:
    names = [Path(word).name for word in command[:3]]
    for place, name in enumerate(names):
        if name == "accelerate" and command[place + 1 : place + 2] == ["launch"]:
            return command[place + 2 :]
        if name == "accelerate-launch":
            return command[place + 1 :]
    return None


def _value_of(arguments: list[str], name: str) -> str | None:
    """The first value of a flag; launcher flags come before the script and its own flags."""
    spellings = (f"--{name}", f"--{name.replace('_', '-')}")
    for place, argument in enumerate(arguments):
        flag, equals, value = argument.partition("=")
        if flag in spellings:
            return value if equals else next(iter(arguments[place + 1 :]), None)
    return None


def _from_file(path: Path) -> str | None:
    try:
        stored = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError):
        return None
    return (
        str(stored["num_processes"])
        if isinstance(stored, dict) and "num_processes" in stored
        else None
    )
