"""The number of processes that this machine can measure without contention."""

from dataclasses import dataclass

import psutil

from manyhands.config.launch.launcher import Launcher
from manyhands.config.train import TrainConfig
from manyhands.cores import num_cores
from manyhands.errors import ConfigError, EnvironmentFault
from manyhands.parallel.world import num_visible_gpus
from manyhands.training.spawn import refuse_missing_ids
from manyhands_bench.config import BenchScalingConfig

DEFAULT_MOST = 8
"""Default maximal number of processes."""

WATCHED_S = 0.5


@dataclass(frozen=True)
class Host:
    """The resources of this machine."""

    is_gpu: bool
    capacity: int
    """Processes with a separate GPU, or enough separate cores."""
    num_cores: int
    busy_share: float = 0.0
    """Fraction of the cores that other programs use."""


@dataclass(frozen=True)
class Sizes:
    """Numbers of processes, measured or modelled."""

    measured: list[int]
    modelled: list[int]

    @property
    def all(self) -> list[int]:
        """All numbers in ascending order."""
        return sorted(self.measured + self.modelled)


def host_of(bench: BenchScalingConfig, config: TrainConfig, launcher: Launcher) -> Host:
    """The resources of this machine for a run."""
    assert config.policy is not None
    device, gpu_ids, cores = config.policy.device, config.launch.gpu_ids, num_cores()
    num_gpus = 0 if launcher.use_cpu or device == "cpu" else num_visible_gpus()
    if num_gpus == 0:
        threads = bench.threads or 1
        if threads > cores:
            raise EnvironmentFault(f"--threads={threads}, but there are {cores} CPU cores")
        return Host(False, cores // threads, cores, busy_share())
    if gpu_ids is not None:
        refuse_missing_ids(config.launch)
        return Host(True, len(gpu_ids), cores, busy_share())
    return Host(True, num_gpus if device in (None, "cuda") else 1, cores, busy_share())


def busy_share() -> float:
    """Current fraction of busy cores."""
    return psutil.cpu_percent(interval=WATCHED_S) / 100


def sizes_of(bench: BenchScalingConfig, host: Host) -> Sizes:
    """Split the numbers of processes into measured and modelled ones."""
    numbers = sorted({1, *(bench.processes or default_processes(host))})
    hosted = [number for number in numbers if number <= host.capacity]
    if bench.kind == "measured":
        if bench.processes is not None:
            refuse_more(bench, host)
        numbers = hosted
    measured = [1] if bench.kind == "modelled" else hosted
    return Sizes(measured, [number for number in numbers if number not in measured])


def default_processes(host: Host) -> list[int]:
    """Powers of two up to the number of GPUs, and at least up to the default."""
    most = max(DEFAULT_MOST, host.capacity if host.is_gpu else 0)
    return [2**power for power in range(most.bit_length())]


def refuse_more(bench: BenchScalingConfig, host: Host) -> None:
    """Reject measurements of processes that would use the same GPU or cores."""
    number = max(bench.processes or [1])
    if number <= host.capacity:
        return
    unit = "GPUs" if host.is_gpu else "CPU cores"
    has = f"the number of {unit} is {host.capacity if host.is_gpu else host.num_cores}"
    if not host.is_gpu and bench.threads is not None:
        has += f" and every process has --threads={bench.threads}"
    raise EnvironmentFault(
        f"--processes={bench.processes} cannot be measured here: {has}. Use at most "
        f"{host.capacity}, or remove --kind=measured to model {number}"
    )


def refuse_other_starts(config: TrainConfig, launcher: Launcher) -> None:
    """Reject launchers and flags that bench scaling does not support."""
    if launcher.started_ranks:
        raise EnvironmentFault(
            "bench scaling starts its own processes. Run it without torchrun, accelerate launch "
            "or srun"
        )
    faults = [
        f"bench scaling does not support --{name}: {remedy}"
        for name, is_given, remedy in (
            ("launch.num_processes", config.launch.num_processes is not None, "use --processes"),
            (
                "launch.num_machines",
                config.launch.num_machines > 1,
                "it measures one machine and models others",
            ),
            (
                "parallelism.gpus_per_process",
                config.parallelism.gpus_per_process > 1,
                "each process has one GPU",
            ),
            ("resume", config.resume is not False, "use the flags of a new run"),
        )
        if is_given
    ]
    if faults:
        raise ConfigError(faults)
