"""`manyhands train`: one process per GPU, or the ones a launcher already started."""

import os
import sys
from collections.abc import Sequence

from manyhands.config.files import to_yaml
from manyhands.config.flags import read_flags
from manyhands.config.help import help_text
from manyhands.config.launcher import Launcher, read_launcher
from manyhands.config.resolve import resolve_train_config
from manyhands.config.train import TrainConfig
from manyhands.errors import EnvironmentFault
from manyhands.launch.accelerate import processes_asked_of_accelerate
from manyhands.launch.workers import run_workers

USAGE = """manyhands train --dataset.root=DIR --policy.type=act [--flag=value ...]

Also accepted: --flag value, flag=value, --policy=act, --config FILE (YAML, JSON or a run).
--print_config shows the configuration that would run."""

STOPPED = 75


def train_command(arguments: Sequence[str]) -> int:
    """Train as the arguments say; return the exit code."""
    command_line = read_flags(arguments)
    if "help" in command_line.switches:
        print(help_text(TrainConfig, USAGE))
        return 0
    launcher = read_launcher(os.environ)
    config = resolve_train_config(command_line.tree)
    if "print_config" in command_line.switches:
        print(to_yaml(config), end="")
        return 0
    num_processes = num_processes_of(config, launcher)
    if launcher.started_ranks or num_processes == 1:
        return run_here(config, arguments)
    return run_workers(num_processes, [sys.executable, "-m", "manyhands", "train", *arguments])


def run_here(config: TrainConfig, arguments: Sequence[str]) -> int:
    """Train in this process, alone or as one of a launcher's ranks."""
    from manyhands.train.run import Ending
    from manyhands.train.start import run_training

    ending = run_training(config, ["manyhands", "train", *arguments])
    return STOPPED if ending is Ending.STOPPED else 0


def num_processes_of(config: TrainConfig, launcher: Launcher) -> int:
    """Ranks on this machine: those a launcher started, those asked for, or one per GPU."""
    asked = config.launch.num_processes
    if launcher.started_ranks:
        if asked not in (None, launcher.num_local_ranks):
            raise EnvironmentFault(
                f"--launch.num_processes={asked}, but the launcher started "
                f"{launcher.num_local_ranks} processes; leave one of the two out"
            )
        return launcher.num_local_ranks
    return asked or processes_asked_of_accelerate() or _num_gpus(config, launcher) or 1


def _num_gpus(config: TrainConfig, launcher: Launcher) -> int:
    assert config.policy is not None
    if launcher.use_cpu or config.policy.device not in (None, "cuda"):
        return 0
    from manyhands.parallel.world import num_visible_gpus

    return num_visible_gpus()
