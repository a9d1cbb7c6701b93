"""Estimates batches, steps, learning rates, memory, disk and time of a run before it starts."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import torch

from manyhands.config.commands.plan import PlanConfig
from manyhands.config.train import LR_SCALINGS, TrainConfig
from manyhands.data.checking.finding import counted
from manyhands.errors import UserError
from manyhands.observe.console import OnProgress
from manyhands.plan.fake_step import FakeSteps
from manyhands.plan.memory import Disk, Footprint, checkpoint_disk, memory_footprint, model_sizes
from manyhands.plan.run_time import RunTime, StepBenchmark, estimate_run_time
from manyhands.plan.topologies import PlannedRun, plan_topology, precision_on_gpus, topologies
from manyhands.policies.synthetic import synthetic_stats, with_synthetic_features
from manyhands.training.setup.assemble import build_initial_policy
from manyhands.training.setup.batch import lr_factor
from manyhands.training.setup.data import alone, open_training_data
from manyhands.types import Stats

CPU = torch.device("cpu")
DRIVER_BYTES = 2**30
"""What a GPU's driver, its libraries and the gaps between tensors take beside tensors."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """A run on some number of GPUs."""

    gpus: int
    strategy: str
    fault: str | None = None  # Why it cannot be; nothing else is known then.
    batch_size: int = 0  # Samples that a GPU takes at a time.
    micro_batches: int = 1
    effective_batch: int = 0
    steps: int = 0
    steps_per_epoch: float | None = None
    lr: float = 0.0
    lr_rules: dict[str, float] = field(default_factory=dict)
    """Learning rate under every rule of --scaling.lr; by default of the first feasible row."""
    memory: Footprint | None = None
    disk: Disk | None = None
    fits: bool | None = None  # Whether it fits into the memory of a GPU; None if that is unknown.
    time: RunTime | None = None  # None without a benchmark.

    @property
    def scale(self) -> str:
        """The number of GPUs in words."""
        return counted(self.gpus, "GPU")

    @property
    def is_possible(self) -> bool:
        """Whether it is feasible, as far as known."""
        return self.fault is None and self.fits is not False


@dataclass(frozen=True)
class Plan:
    """All rows, and what they have in common."""

    rows: list[Row]
    precision: str
    num_samples: int | None  # Samples of an epoch; None for synthetic data.
    num_parameters: int
    num_trained: int
    gpu_bytes: int | None
    benchmark: str | None = None  # Where step times were measured.

    @property
    def feasible_rows(self) -> list[Row]:
        """The rows without a fault, whether they fit or not."""
        return [row for row in self.rows if row.fault is None]

    @property
    def is_possible(self) -> bool:
        """Whether any row is feasible, as far as known."""
        return any(row.is_possible for row in self.rows)

    def as_json(self) -> dict[str, Any]:
        """The plan as JSON."""
        return {**asdict(self), "rows": [_row_as_json(row) for row in self.rows]}


def _row_as_json(row: Row) -> dict[str, Any]:
    fields = asdict(row)
    if row.memory is not None:
        memory = row.memory
        fields["memory"] |= {"needed": memory.needed, "most": memory.most, "trial": memory.trial}
    if row.disk is not None:
        fields["disk"] |= {"most_bytes": row.disk.most_bytes}
    if row.time is not None:
        ends_at = row.time.ends_at
        fields["time"] |= {"ends_at": ends_at and ends_at.isoformat(timespec="seconds")}
    return fields


def make_plan(
    plan: PlanConfig,
    config: TrainConfig,
    on_progress: OnProgress,
    benchmark: StepBenchmark | None = None,
) -> Plan:
    """Plan a run for each requested number of GPUs; its time only with a benchmark."""
    config, stats, num_samples = describe_run(plan, config)
    policy, _ = build_initial_policy(config, stats, CPU)
    weights = [*policy.network.parameters()]
    gpu_bytes = plan.gpu_bytes
    if gpu_bytes is None and torch.cuda.is_available():
        gpu_bytes = int(torch.cuda.get_device_properties(0).total_memory)
    subject = Planner(FakeSteps(policy), num_samples, gpu_bytes, benchmark)
    ways, rows = [*topologies(plan, config)], list[Row]()
    for number, (gpus, spread) in enumerate(ways):
        on_progress(number, len(ways))
        rows.append(subject.row(gpus, spread))
    on_progress(len(ways), len(ways))
    return Plan(
        rows=with_lr_rules(rows, config),
        precision=precision_on_gpus(config),
        num_samples=num_samples,
        num_parameters=sum(each.numel() for each in weights),
        num_trained=sum(each.numel() for each in weights if each.requires_grad),
        gpu_bytes=gpu_bytes,
        benchmark=None if benchmark is None else benchmark.source,
    )


def with_lr_rules(rows: Sequence[Row], config: TrainConfig) -> list[Row]:
    """Rows with their learning rates under every rule, relative to the first feasible row."""
    batches = (row.effective_batch for row in rows if row.fault is None)
    base, optimizer = config.scaling.base_batch_size or next(batches, None), config.optimizer
    assert optimizer is not None
    scalings = [replace(config.scaling, lr=rule, base_batch_size=base) for rule in LR_SCALINGS]

    def rules(row: Row) -> dict[str, float]:
        return {each.lr: lr_factor(each, row.effective_batch) * optimizer.lr for each in scalings}

    return [row if row.fault is not None else replace(row, lr_rules=rules(row)) for row in rows]


def describe_run(plan: PlanConfig, config: TrainConfig) -> tuple[TrainConfig, Stats, int | None]:
    """Return the run with features, its statistics and samples per epoch; data may be synthetic."""
    if config.dataset.is_named:
        data, config = open_training_data(config.without_cache(), alone)
        return config, data.stats, data.order.num_samples
    assert config.policy is not None
    policy = with_synthetic_features(config.policy, plan)
    return replace(config, policy=policy), synthetic_stats(policy), plan.num_samples


@dataclass(frozen=True)
class Planner:
    """Plans a run, whatever its topology."""

    rehearsals: FakeSteps
    num_samples: int | None
    gpu_bytes: int | None
    benchmark: StepBenchmark | None = None
    starts_at: datetime = field(default_factory=lambda: datetime.now(UTC))

    def row(self, gpus: int, config: TrainConfig) -> Row:
        """Plan the run on so many GPUs; an infeasible run is a row with the reason."""
        try:
            return self._row(gpus, config)
        except UserError as error:
            return Row(gpus=gpus, strategy="", fault=str(error))

    def _row(self, gpus: int, config: TrainConfig) -> Row:
        spread = plan_topology(gpus, config, self.num_samples)
        strategy, share, optimizer = spread.strategy, spread.split, spread.config.optimizer
        assert optimizer is not None
        batch, num_samples = share.samples_per_step, self.num_samples
        sizes = model_sizes(self.rehearsals.network, spread.config, strategy)
        memory = memory_footprint(self.rehearsals, sizes, spread)
        return Row(
            gpus=gpus,
            strategy=strategy.kind.value,
            batch_size=share.micro_batch_size,
            micro_batches=share.num_micro_batches,
            effective_batch=batch,
            steps=spread.config.num_steps,
            steps_per_epoch=None if num_samples is None else num_samples / batch,
            lr=lr_factor(config.scaling, batch) * optimizer.lr,
            memory=memory,
            disk=checkpoint_disk(sizes, spread.config, strategy),
            fits=None if self.gpu_bytes is None else memory.needed + DRIVER_BYTES <= self.gpu_bytes,
            time=self._run_time(spread),
        )

    def _run_time(self, spread: PlannedRun) -> RunTime | None:
        if self.benchmark is None:
            return None
        network = self.rehearsals.network
        return estimate_run_time(spread, network, self.benchmark, self.starts_at)
