"""`manyhands train`: start one process per GPU, or join those of a launcher."""

import sys
from collections.abc import Sequence

from manyhands.config.essentials import ESSENTIALS
from manyhands.config.files.config_files import config_file_notes, to_yaml
from manyhands.config.resolve import read_resolved, resolve_train_config
from manyhands.config.schema.command_line import read_flags
from manyhands.config.schema.decoding import Tree
from manyhands.config.schema.help import help_text
from manyhands.config.train import TrainConfig
from manyhands.launch.environment import current_launcher, resolved_config_file
from manyhands.launch.outcome import Ending
from manyhands.observe.start_phases import StartPhases
from manyhands.observe.wrapping import print_wrapped
from manyhands.stop import StopSignal
from manyhands.training.finished_run import has_nothing_to_do
from manyhands.training.spawn import (
    needs_workers,
    num_processes_of,
    refuse_bad_paths,
    train_here,
    train_in_processes,
)

USAGE = """manyhands train --dataset.root=DIR --policy.type=act [--flag=value ...]

Also: --flag value, flag=value, --config=FILE (YAML, JSON or a run), --print_config"""


def train_until(stop: StopSignal, arguments: Sequence[str], phases: StartPhases) -> int:
    """Train, unless a stop is requested; return the exit code."""
    command_line = read_flags(arguments)
    if "help" in command_line.switches:
        print(help_text(TrainConfig, USAGE, command_line.topic, ESSENTIALS))
        return 0
    resolved = resolved_config_file()
    config = read_resolved(resolved) if resolved else resolve_train_config(command_line.tree)
    if "print_config" in command_line.switches:
        print(to_yaml(config), end="")
        return 0
    launcher = current_launcher()
    if resolved is None and launcher.is_main:
        print_notes(command_line.tree)
    if has_nothing_to_do(config, launcher, stop):
        return Ending.FINISHED.exit_code
    refuse_bad_paths(config, launcher)
    if needs_workers(config, launcher):
        phases.begin("starting", f"{num_processes_of(config, launcher)} processes")
        return train_in_processes(config, launcher, arguments, stop)
    ending = train_here(config, launcher, ["manyhands", "train", *arguments], stop, phases)
    return ending.exit_code


def print_notes(flags: Tree) -> None:
    """Print which flags the aliases of a configuration file set."""
    if "config_path" in flags:
        for note in config_file_notes(str(flags["config_path"])):
            print_wrapped(note, sys.stderr)


if __name__ == "__main__":
    print(
        "manyhands: not started as a script. Run: python -m manyhands train FLAGS", file=sys.stderr
    )
    sys.exit(2)
