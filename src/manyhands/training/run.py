"""The components of a run."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from manyhands.checkpoint.snapshot import Position
from manyhands.checkpoint.store import CheckpointStore, ResumePoint
from manyhands.config.train import TrainConfig
from manyhands.observe.audit import Audit, NoAudit
from manyhands.observe.meters import Meters
from manyhands.observe.profiler import NoProfiler, StepProfiler
from manyhands.observe.run_log import NullRunLog, RunLog
from manyhands.parallel.world import World
from manyhands.training.early_stopping import EarlyStopping
from manyhands.training.evaluation import PeriodicEvaluation
from manyhands.training.health.loss_spikes import LossSpikes
from manyhands.training.health.nonfinite_guard import NonFiniteGuard
from manyhands.training.metrics import MetricsWindow
from manyhands.training.periods import Periods, StopPoll
from manyhands.training.setup.data import TrainingData
from manyhands.training.step.learner import Learner
from manyhands.training.tracking import Tracking
from manyhands.training.validation import Validator
from manyhands.types import Batch


class Stream(Protocol):
    """Batches of this rank, starting at any position of the data order."""

    def starting_at(self, position: int) -> Iterator[Batch]: ...


@dataclass(frozen=True)
class Run:
    """Everything the loop needs; collective where ranks must agree."""

    config: TrainConfig
    run_dir: Path
    start: Position  # The start position: zero, or that of the resumed run.
    resume: ResumePoint | None
    world: World
    learner: Learner
    stream: Stream
    data: TrainingData
    notes: list[str]  # Notes to log at the start.
    validator: Validator
    evaluation: PeriodicEvaluation
    checkpoints: CheckpointStore
    run_log: RunLog | NullRunLog
    tracking: Tracking
    audit: Audit | NoAudit
    meters: Meters
    profiler: StepProfiler | NoProfiler
    metrics_window: MetricsWindow
    guard: NonFiniteGuard
    loss_spikes: LossSpikes
    early_stopping: EarlyStopping
    periods: Periods
    stop_poll: StopPoll
