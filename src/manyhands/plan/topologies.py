"""The topologies to plan for a run, and the batch and steps of each."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from manyhands.checkpoint.snapshot import Position
from manyhands.config.commands.plan import USUAL_GPUS, PlanConfig
from manyhands.config.launch.launcher import Launcher
from manyhands.config.sections.execution import ParallelismConfig
from manyhands.config.train import TrainConfig
from manyhands.data.loading.stream import BatchSplit
from manyhands.errors import ConfigError, UserError
from manyhands.parallel.precision import preferred_precision
from manyhands.parallel.strategy import Strategy, resolve_strategy
from manyhands.training.setup.batch import resolve_steps, split_batch

ALL = -1  # As --parallelism.dp_shard: one copy of the weights for all.


@dataclass(frozen=True)
class PlannedRun:
    """A run over some GPUs."""

    config: TrainConfig  # With the number of steps of its budget.
    strategy: Strategy
    split: BatchSplit  # What a rank has of every update.
    precision: str

    @property
    def is_rounded(self) -> bool:
        """Whether it computes in low precision."""
        return self.precision != "no"


def topologies(plan: PlanConfig, config: TrainConfig) -> Iterator[tuple[int, TrainConfig]]:
    """Yield numbers of GPUs, each with the config of the run on them."""
    is_free = config.parallelism == ParallelismConfig()
    for number in plan.gpus or default_gpus(config):
        yield number, config
        if is_free and number > 1:
            yield number, replace(config, parallelism=replace(config.parallelism, dp_shard=ALL))


def default_gpus(config: TrainConfig) -> Sequence[int]:
    """The number of GPUs that a run is configured for, else usual ones."""
    num_processes, per_process = config.launch.num_processes, config.parallelism.gpus_per_process
    if num_processes is None and per_process == 1:
        return USUAL_GPUS
    # As in training, several GPUs of a process mean one process.
    return [(num_processes or 1) * per_process]


def plan_topology(gpus: int, config: TrainConfig, num_samples: int | None) -> PlannedRun:
    """Plan a run on GPUs; raises if infeasible; without samples one batch is an epoch."""
    precision = precision_on_gpus(config)
    per_process = config.parallelism.gpus_per_process
    if gpus % per_process:
        raise ConfigError(
            f"--parallelism.gpus_per_process={per_process} does not divide the number of GPUs. "
            f"Set --gpus=[{per_process}]"
        )
    num_ranks = gpus // per_process
    strategy = resolve_strategy(config, Launcher(num_ranks=num_ranks))
    split = split_batch(config, 0, num_ranks)
    batch = split.samples_per_step
    return PlannedRun(
        resolve_steps(config, Position(), num_samples or batch, batch), strategy, split, precision
    )


def planned_batch_sizes(plan: PlanConfig, config: TrainConfig) -> list[int]:
    """Micro-batch sizes of all feasible topologies, in ascending order."""
    sizes = set()
    for gpus, spread in topologies(plan, config):
        with suppress(UserError):
            sizes.add(plan_topology(gpus, spread, num_samples=None).split.micro_batch_size)
    return sorted(sizes)


def precision_on_gpus(config: TrainConfig) -> str:
    """The default precision of a run on current GPUs."""
    return preferred_precision(config, Launcher(), has_bf16=True)
