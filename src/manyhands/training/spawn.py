"""Runs training in all its processes: those of a launcher, or our own workers."""

import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from manyhands import garbage
from manyhands.config.launch.launcher import Launcher
from manyhands.config.paths.output import folder_fault
from manyhands.config.resolve import choose_output_dir, resolve_config, write_resolved
from manyhands.config.train import LaunchConfig, TrainConfig
from manyhands.data.loading.forkserver import FORKSERVER, num_loaders, start_server
from manyhands.data.location import locate_dataset
from manyhands.errors import ConfigError, EnvironmentFault, Stopped
from manyhands.launch.accelerate import accelerate_command
from manyhands.launch.environment import (
    RESOLVED,
    RESTARTS,
    current_launcher,
    gpus_that_compute,
    may_have_several,
    num_driven,
    num_set_visible,
    user_port,
    visible_gpus,
)
from manyhands.launch.outcome import Ending, Outcome, ending_from_exit_code
from manyhands.launch.workers import LOOPBACK, Machines, listen, run_workers
from manyhands.observe.start_phases import STARTED, StartPhases
from manyhands.stop import StopSignal
from manyhands.training.finished_run import has_nothing_to_do
from manyhands.training.output_dir import run_dir_fault
from manyhands.training.restarts import Placement, Start, run_with_restarts


def train(config: TrainConfig) -> Ending:
    """Train with a config, in one process per GPU unless a launcher already started them."""
    if not isinstance(config, TrainConfig):
        raise ConfigError(
            f"train takes a TrainConfig, not {type(config).__name__}. Write "
            'manyhands.train(manyhands.read_train_config(["--dataset.root=DIR", ...]))'
        )
    try:
        with StopSignal() as stop:
            return _train(config, stop)
    except Stopped:
        return Ending.STOPPED


def _train(config: TrainConfig, stop: StopSignal) -> Ending:
    config, launcher = resolve_config(config), current_launcher()
    phases = StartPhases(launcher.is_main)
    if has_nothing_to_do(config, launcher, stop):
        return Ending.FINISHED
    refuse_bad_paths(config, launcher)
    if not needs_workers(config, launcher):
        return train_here(config, launcher, (), stop, phases)
    return ending_from_exit_code(train_in_processes(config, launcher, (), stop))


def train_here(
    config: TrainConfig,
    launcher: Launcher,
    command: Sequence[str],
    stop: StopSignal,
    phases: StartPhases,
) -> Ending:
    """Train in this process, as one of the ranks."""
    phases.begin("loading", "PyTorch")
    method = config.dataloader_multiprocessing_context
    if method == FORKSERVER and num_loaders(config.num_workers, launcher.num_local_ranks) > 0:
        # Loader processes import their modules while this process imports its own.
        start_server(*simulator_modules(config))
    with garbage.paused():
        from manyhands.training.start import run_training

    stop.raise_if_requested()
    return run_training(config, command, stop, phases)


def simulator_modules(config: TrainConfig) -> list[str]:
    """What hundreds of environments would each import themselves, if this process runs any."""
    if config.env is None or not config.evaluates or config.eval.async_:
        return []
    from manyhands.sim.build import modules_of

    return modules_of(config.env)


def needs_workers(config: TrainConfig, launcher: Launcher) -> bool:
    """Whether processes must be started for the ranks of this machine."""
    if launcher.started_ranks:
        refuse_other_processes(config, launcher)
        return False
    launch = config.launch
    wanted = launch.num_machines > 1 or launch.gpu_ids is not None or launch.max_restarts > 0
    return wanted or num_processes_of(config, launcher) > 1


def train_in_processes(
    config: TrainConfig,
    launcher: Launcher,
    arguments: Sequence[str],
    stop: StopSignal,
    places_left: Callable[[], Placement] | None = None,
) -> int:
    """Run `manyhands train` once per rank of this machine; return the exit code of the run.

    All ranks get the given config; the arguments from which it was resolved are for the record.
    `places_left` returns where processes can restart; by default on all GPUs that respond.
    """
    refuse_unused_ids(config)
    refuse_missing_ids(config.launch)
    refuse_lost_accumulation(config, launcher)
    first = process_placement(config, launcher)
    if config.launch.max_restarts > 0:
        config = replace(config, output_dir=choose_output_dir(config, datetime.now()))

    def run(start: Start) -> Outcome:
        command = [sys.executable, "-m", "manyhands", "train", *arguments, *start.flags]
        # Ranks that looked for the newest checkpoint themselves might find different ones.
        resolved = resolve_config(config, start.flags) if start.restarts else config
        machines = machine_addresses(config.launch)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "config.json")
            write_resolved(resolved, file)
            changes = {RESTARTS: json.dumps(start.restarts), RESOLVED: str(file)}
            if start.restarts:
                changes[STARTED] = str(time.monotonic())
            if start.places.gpus is not None:
                changes["CUDA_VISIBLE_DEVICES"] = ",".join(start.places.gpus)
            return run_workers(start.places.num_processes, command, machines, changes)

    left = places_left or (lambda: places_that_compute(first))
    return run_with_restarts(config, first, run, left, stop)


def process_placement(config: TrainConfig, launcher: Launcher) -> Placement:
    """Where the processes of this machine compute."""
    gpu_ids = config.launch.gpu_ids
    if gpu_ids is None and config.launch.max_restarts > 0:
        # Names still identify the GPUs that remain after a failure.
        gpu_ids = [*range(_num_gpus(config, launcher))] or None
    gpus = None if gpu_ids is None else visible_gpus(gpu_ids)
    return Placement(num_processes_of(config, launcher), gpus)


def places_that_compute(first: Placement) -> Placement:
    """The places whose GPUs still respond."""
    if first.gpus is None:
        return first
    gpus = gpus_that_compute(first.gpus)
    if not gpus:
        raise EnvironmentFault(
            f"none of the GPUs {', '.join(first.gpus)} responds. Check nvidia-smi"
        )
    return Placement(min(first.num_processes, len(gpus)), gpus)


def machine_addresses(launch: LaunchConfig) -> Machines:
    """The rendezvous of all machines; the main one binds the port now."""
    port, named_by = launch.main_port, "--launch.main_port"
    if port is None:
        port, named_by = user_port(), "MASTER_PORT"
    if launch.num_machines == 1:
        own = listen(LOOPBACK, port, named_by)
        return Machines(own.getsockname()[1], listener=own)
    assert launch.main_address is not None and port is not None
    # On machine 0 the port is open to the others, whichever of its addresses they know.
    listener = listen("", port, named_by) if launch.machine_rank == 0 else None
    return Machines(port, launch.main_address, launch.num_machines, launch.machine_rank, listener)


def num_processes_of(config: TrainConfig, launcher: Launcher) -> int:
    """Ranks on this machine: those of a launcher, those configured, or one per GPU."""
    if launcher.started_ranks:
        return launcher.num_local_ranks
    num_processes = config.launch.num_processes
    if num_processes is None and config.parallelism.gpus_per_process > 1:
        num_processes = 1
    if num_processes is None and config.launch.gpu_ids is not None:
        num_processes = len(config.launch.gpu_ids)
    if not num_processes and (command := accelerate_command()) is not None:
        num_processes = command.count("num_processes")
    if not num_processes and may_have_several():
        num_processes = _num_gpus(config, launcher)
    return num_processes or 1


def refuse_other_processes(config: TrainConfig, launcher: Launcher) -> None:
    """Reject launch flags where a launcher already started the processes."""
    # A resumed run may have stored launch flags, and our workers get the flags of their parent.
    if config.resumes or launcher.is_ours:
        return
    launch = config.launch
    if launch.num_processes not in (None, launcher.num_local_ranks):
        raise EnvironmentFault(
            f"--launch.num_processes={launch.num_processes}, but the launcher started "
            f"{launcher.num_local_ranks} processes. Use only one of them"
        )
    for name, default in vars(LaunchConfig()).items():
        if name != "num_processes" and getattr(launch, name) != default:
            raise EnvironmentFault(
                f"--launch.{name}={getattr(launch, name)}, but a launcher started this process. "
                "Use the flags of the launcher instead"
            )


def refuse_lost_accumulation(config: TrainConfig, launcher: Launcher) -> None:
    """Reject restarts with micro-batches set by the launcher, which a restart would lose."""
    if config.launch.max_restarts > 0 and launcher.accumulation is not None:
        raise EnvironmentFault(
            f"the launcher asks for {launcher.accumulation} micro-batches per step, which "
            "--launch.max_restarts does not preserve. Set "
            f"--accelerator.gradient_accumulation.steps={launcher.accumulation} instead"
        )


def refuse_bad_paths(config: TrainConfig, launcher: Launcher) -> None:
    """Reject paths that no rank could use, before any of them loads anything."""
    if launcher.is_ours:
        return  # The process that started this one has looked.
    faults = []
    # Ranks of a launcher agree on the run directory later: one that left now would be missed.
    is_first = not launcher.started_ranks and config.launch.machine_rank == 0
    if config.output_dir is not None and is_first:
        faults.append(run_dir_fault(config.output_dir, config))
    if config.cache.folder is not None:
        faults.append(folder_fault("--cache.folder", config.cache.folder))
    if any(faults):
        raise ConfigError([*filter(None, faults)])
    if config.dataset.root is not None:
        locate_dataset(None, config.dataset.root)


def refuse_unused_ids(config: TrainConfig) -> None:
    """Reject a choice of GPUs for a run that uses none, or another one."""
    device, gpu_ids = config.policy and config.policy.device, config.launch.gpu_ids
    if gpu_ids is not None and device not in (None, "cuda"):
        raise EnvironmentFault(
            f"--launch.gpu_ids={gpu_ids} has no effect with --policy.device={device}. Use "
            f"--launch.num_processes={len(gpu_ids)}"
        )


def refuse_missing_ids(launch: LaunchConfig) -> None:
    """Reject GPUs that are not visible."""
    num_visible = num_set_visible()
    if num_visible is None and launch.gpu_ids is not None and not _has_gpus():
        raise EnvironmentFault(
            f"--launch.gpu_ids={launch.gpu_ids}: no GPU is visible. For processes on the CPU use "
            f"--launch.num_processes={len(launch.gpu_ids)}"
        )
    if num_visible is None:
        return
    missing = [number for number in launch.gpu_ids or [] if number >= num_visible]
    if missing:
        raise EnvironmentFault(
            f"--launch.gpu_ids={launch.gpu_ids}: there is no GPU {missing[0]}. Number of GPUs in "
            f"CUDA_VISIBLE_DEVICES, counted from 0: {num_visible}"
        )


def _has_gpus() -> bool:
    """Whether this machine has a GPU; asks torch, which is slow to import, about other drivers."""
    from manyhands.parallel.world import num_visible_gpus

    return bool(num_driven() or num_visible_gpus())


def _num_gpus(config: TrainConfig, launcher: Launcher) -> int:
    device = config.policy.device if config.policy is not None else None
    if launcher.use_cpu or device not in (None, "cuda"):
        return 0
    from manyhands.parallel.world import num_visible_gpus

    return num_visible_gpus()
