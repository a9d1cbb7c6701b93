"""A run before anything is built: its final config, and where it starts."""

from dataclasses import dataclass
from pathlib import Path

from manyhands.checkpoint.snapshot import Position
from manyhands.checkpoint.store import ResumePoint, read_pending_metrics, read_position
from manyhands.config.resume_changes import changes_since
from manyhands.config.train import TrainConfig
from manyhands.data.loading.stream import BatchSplit
from manyhands.training.setup.batch import resolve_steps, split_batch


@dataclass(frozen=True)
class ResolvedRun:
    """A config, and all that follows from it with data, ranks and checkpoint."""

    config: TrainConfig  # With the features of its policy, and with the steps of its budget.
    split: BatchSplit
    start: Position
    resume: ResumePoint | None


def resolve_run(config: TrainConfig, num_samples: int, rank: int, num_ranks: int) -> ResolvedRun:
    """Complete a config that has its features, for data with as many samples per epoch."""
    split = split_batch(config, rank, num_ranks)
    folder = Path(str(config.resume)) if config.resumes else None
    start = Position() if folder is None else read_position(folder)
    config = resolve_steps(config, start, num_samples, split.samples_per_step)
    resume = None
    if folder is not None:
        resume = ResumePoint(folder, changes_since(folder, config), read_pending_metrics(folder))
    return ResolvedRun(config, split, start, resume)
