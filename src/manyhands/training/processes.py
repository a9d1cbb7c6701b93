"""A run in as many processes as it should have: those a launcher started, or our own."""

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from manyhands.config.files import to_yaml
from manyhands.config.launcher import Launcher
from manyhands.config.resolve import completed
from manyhands.config.train import TrainConfig
from manyhands.errors import EnvironmentFault
from manyhands.launch.accelerate import processes_asked_of_accelerate
from manyhands.launch.environment import current_launcher
from manyhands.launch.workers import run_workers
from manyhands.training.ending import Ending, ending_of


def train(config: TrainConfig) -> Ending:
    """Train as a config says, in one process per GPU unless a launcher already started some."""
    config, launcher = completed(config), current_launcher()
    num_processes = num_processes_of(config, launcher)
    if launcher.started_ranks or num_processes == 1:
        from manyhands.training.start import run_training

        return run_training(config)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "train.yaml"
        file.write_text(to_yaml(config), encoding="utf-8")
        return ending_of(train_in_workers(num_processes, [f"--config={file}"]))


def train_in_workers(num_processes: int, arguments: Sequence[str]) -> int:
    """Run `manyhands train` once per rank; return the exit code of the whole."""
    return run_workers(num_processes, [sys.executable, "-m", "manyhands", "train", *arguments])


def num_processes_of(config: TrainConfig, launcher: Launcher) -> int:
    """Ranks on this machine: those a launcher started, those asked for, or one per GPU."""
    asked = config.launch.num_processes
    if launcher.started_ranks:
        # A resumed run may have stored the number it had; the launcher's stands.
        if asked not in (None, launcher.num_local_ranks) and config.resume is False:
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
