"""A run in as many processes as it should have: those a launcher started, or our own."""

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from manyhands.config.files import to_yaml
from manyhands.config.launcher import Launcher
from manyhands.config.resolve import completed
from manyhands.config.train import LaunchConfig, TrainConfig
from manyhands.errors import EnvironmentFault
from manyhands.launch.accelerate import accelerate_command
from manyhands.launch.environment import (
    current_launcher,
    num_set_visible,
    port_set_by_hand,
    visible_gpus,
)
from manyhands.launch.workers import LOOPBACK, Machines, listen, run_workers
from manyhands.training.ending import Ending, ending_of


def train(config: TrainConfig) -> Ending:
    """Train as a config says, in one process per GPU unless a launcher already started some."""
    config, launcher = completed(config), current_launcher()
    if not needs_workers(config, launcher):
        from manyhands.training.start import run_training

        return run_training(config)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "train.yaml"
        file.write_text(to_yaml(config), encoding="utf-8")
        return ending_of(train_in_workers(config, launcher, [f"--config={file}"]))


def needs_workers(config: TrainConfig, launcher: Launcher) -> bool:
    """Whether processes must be started for the ranks of this machine."""
    if launcher.started_ranks:
        refuse_other_processes(config, launcher)
        return False
    wanted = config.launch.num_machines > 1 or config.launch.gpu_ids is not None
    return wanted or num_processes_of(config, launcher) > 1


def train_in_workers(config: TrainConfig, launcher: Launcher, arguments: Sequence[str]) -> int:
    """Run `manyhands train` once per rank of this machine; return the exit code of the whole."""
    command = [sys.executable, "-m", "manyhands", "train", *arguments]
    gpu_ids = config.launch.gpu_ids
    refuse_missing_ids(config.launch)
    return run_workers(
        num_processes_of(config, launcher),
        command,
        machines_of(config.launch),
        None if gpu_ids is None else visible_gpus(gpu_ids),
    )


def machines_of(launch: LaunchConfig) -> Machines:
    """Where the processes of all machines meet; the main one takes the port here and now."""
    port, named_by = launch.main_port, "--launch.main_port"
    if port is None:
        port, named_by = port_set_by_hand(), "MASTER_PORT"
    if launch.num_machines == 1:
        own = listen(LOOPBACK, port, named_by)
        return Machines(own.getsockname()[1], listener=own)
    assert launch.main_address is not None and port is not None
    # On machine 0 the port is open to the others, whichever of its addresses they know.
    listener = listen("", port, named_by) if launch.machine_rank == 0 else None
    return Machines(port, launch.main_address, launch.num_machines, launch.machine_rank, listener)


def num_processes_of(config: TrainConfig, launcher: Launcher) -> int:
    """Ranks on this machine: those a launcher started, those asked for, or one per GPU."""
    if launcher.started_ranks:
        return launcher.num_local_ranks
    asked = config.launch.num_processes
    if asked is None and config.parallelism.gpus_per_process > 1:
        asked = 1
    if asked is None and config.launch.gpu_ids is not None:
        asked = len(config.launch.gpu_ids)
    return asked or _asked_of_accelerate() or _num_gpus(config, launcher) or 1


def refuse_other_processes(config: TrainConfig, launcher: Launcher) -> None:
    """Refuse flags about processes that a launcher has started already."""
    # A resumed run may have stored what it had, and our own workers get the flags of their parent.
    if config.resume is not False or launcher.is_ours:
        return
    asked = config.launch
    if asked.num_processes not in (None, launcher.num_local_ranks):
        raise EnvironmentFault(
            f"--launch.num_processes={asked.num_processes}, but the launcher started "
            f"{launcher.num_local_ranks} processes; leave one of the two out"
        )
    for name, default in vars(LaunchConfig()).items():
        if name != "num_processes" and getattr(asked, name) != default:
            raise EnvironmentFault(
                f"--launch.{name}={getattr(asked, name)}, but a launcher started this process; "
                "give its own flags instead"
            )


def refuse_missing_ids(launch: LaunchConfig) -> None:
    """Refuse GPUs that are not among the visible ones."""
    num_visible = num_set_visible()
    if num_visible is None:
        return
    missing = [number for number in launch.gpu_ids or [] if number >= num_visible]
    if missing:
        raise EnvironmentFault(
            f"--launch.gpu_ids={launch.gpu_ids} counts among the {num_visible} GPUs that "
            f"CUDA_VISIBLE_DEVICES leaves, from 0; there is no {missing[0]}"
        )


def _asked_of_accelerate() -> int | None:
    command = accelerate_command()
    return command.count("num_processes") if command else None


def _num_gpus(config: TrainConfig, launcher: Launcher) -> int:
    assert config.policy is not None
    if launcher.use_cpu or config.policy.device not in (None, "cuda"):
        return 0
    from manyhands.parallel.world import num_visible_gpus

    return num_visible_gpus()
