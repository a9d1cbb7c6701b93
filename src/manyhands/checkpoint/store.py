"""Checkpoints of a run: saved asynchronously and atomically, restored exactly."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from manyhands.atomic import replace_symlink
from manyhands.checkpoint.async_save import AsyncSave
from manyhands.checkpoint.best_score import SUCCESS
from manyhands.checkpoint.retention import add_scores, apply_retention, remove_leftovers
from manyhands.checkpoint.shards import Shards
from manyhands.checkpoint.snapshot import Position, Saveable
from manyhands.checkpoint.writer import CheckpointWriter
from manyhands.config.files.config_files import read_config_file
from manyhands.config.resume_changes import Changes, change_lines
from manyhands.config.runs.run_dir import (
    CHECKPOINTS,
    LAST,
    PRETRAINED,
    PRETRAINED_EMA,
    SHARDS,
    TRAIN_CONFIG,
    TRAINING_STATE,
    damaged_newer,
    missing_run_dir,
)
from manyhands.config.train import TrainConfig
from manyhands.errors import CheckpointError
from manyhands.lerobot_format.checkpoint import read_progress, read_training_state
from manyhands.manifest import ManifestFault, read_manifest
from manyhands.parallel.world import World

GRACE_S = 60.0  # How long a failed run still waits for a save in progress.


@dataclass(frozen=True)
class ResumePoint:
    """The checkpoint that a run resumes from."""

    folder: Path
    changes: Changes
    """Differences to the config of the checkpoint."""
    pending_metrics: Mapping[str, Any] | None
    """Metrics that were not logged before the run stopped; None if all were."""


def read_position(checkpoint: Path) -> Position:
    """The position of a checkpoint."""
    state = read_progress(checkpoint / TRAINING_STATE)
    return Position(state.step, state.samples)


def read_pending_metrics(checkpoint: Path) -> Mapping[str, Any] | None:
    """Metrics that the run of a checkpoint had not logged; None if all were."""
    try:
        facts, _ = read_manifest(checkpoint)
    except ManifestFault:
        # Checkpoints of LeRobot have none.
        return None
    lap: Mapping[str, Any] | None = facts.get("lap")
    return lap


class CheckpointStore:
    """The checkpoints of one run directory."""

    def __init__(self, run_dir: Path, config: TrainConfig, world: World) -> None:
        self._run_dir = run_dir
        self._config = config
        self._world = world
        self._channel = world.watch.channel("saves")
        self._saving: AsyncSave | None = None
        self._num_saves = 0
        self._usual_save_s: float | None = None
        self._unscored: frozenset[int] = frozenset()
        self._messages: SimpleQueue[str] = SimpleQueue()
        if world.is_main:
            # Saves do not create it again once it is removed.
            run_dir.mkdir(parents=True, exist_ok=True)
            remove_leftovers(run_dir)

    def restore(self, learner: Saveable, resume: ResumePoint) -> list[str]:
        """Collective. Restore the learner of a resumed run; return notes to log."""
        folder = resume.folder
        faults = self._world.on_main(lambda: damaged_newer(folder))
        _, notes = self.load(folder, learner)
        if self._world.is_main and folder.parent == (self._run_dir / CHECKPOINTS).resolve():
            replace_symlink(folder.parent / LAST, folder.name)
        used = f"resuming from {folder.name} instead"
        warnings = [f"WARNING: skipped a damaged checkpoint: {fault}; {used}" for fault in faults]
        return [*warnings, *change_lines(resume.changes), *notes]

    def load(self, folder: Path, learner: Saveable) -> tuple[Position, list[str]]:
        """Collective. Load a checkpoint into the learner; return its position and notes to log."""
        state = read_training_state(folder / TRAINING_STATE)
        shards = Shards(folder / TRAINING_STATE / SHARDS) if state.is_sharded else None
        learner.memory.load_policy(folder / PRETRAINED, shards)
        notes = learner.load_training_state(state, shards)
        if self._config.ema.enable and (folder / PRETRAINED_EMA).is_dir():
            learner.memory.load_average(folder / PRETRAINED_EMA, shards)
        elif self._config.ema.enable:
            notes.append(ema_note(folder, state.step))
        return Position(state.step, state.samples), notes

    def save(
        self,
        position: Position,
        learner: Saveable,
        scores: Mapping[str, float] | None = None,
        pending_metrics: Mapping[str, Any] | None = None,
    ) -> None:
        """Collective. Start to write the checkpoint of a position, after the previous one."""
        # Training continues at once: the snapshot has everything that is written. Scores are the
        # metrics of the position, pending metrics those that are not logged yet.
        if self._saving is not None:
            self._saving.skip_retry_delay()
        self.finish()
        snapshot = learner.snapshot(position)
        snapshot = replace(
            snapshot,
            scores=scores or {},
            pending_metrics=pending_metrics,
            unscored=self._unscored,
        )
        files = CheckpointWriter(self._run_dir, self._config, self._world, snapshot)
        self._num_saves, self._usual_save_s = self._num_saves + 1, self.usual_save_s
        self._saving = AsyncSave(str(self._num_saves), files, self._world, self._channel)
        self._saving.start(self._messages.put)

    def amend(self, step: int, scores: Mapping[str, float]) -> None:
        """Collective. Add scores to the checkpoint of a step, and keep the best one by them."""
        if not scores:
            return
        self.finish()
        self._world.on_main(lambda: self._add_scores(step, scores))

    def await_scores(self, steps: Iterable[int]) -> None:
        """Keep the checkpoints of these steps, which may be the best, until they have scores."""
        self._unscored = frozenset(steps if self._config.keep_best == SUCCESS else ())

    def amend_late(self, step: int, scores: Mapping[str, float]) -> None:
        """Add scores of an earlier step, none if it failed, while no save is in progress."""
        # On the main rank alone, which receives them: it must not wait while others train.
        self._unscored -= {step}
        self._add_scores(step, scores)

    def _add_scores(self, step: int, scores: Mapping[str, float]) -> None:
        try:
            add_scores(self._run_dir, step, scores)
            apply_retention(self._run_dir, self._config, self._unscored)
        except OSError as error:
            fault = f"cannot add the scores of step {step} to its checkpoint: {error.strerror}"
            self._messages.put(f"WARNING: {fault}")

    @property
    def is_saving(self) -> bool:
        """Whether a save is in progress."""
        return self._saving is not None and self._saving.is_running

    def finish(self) -> None:
        """Wait until the current save is written or has failed."""
        if self._saving is None:
            return
        # Ranks wait here for the disk of the main rank, which is not a hang.
        with self._world.watch.without_timeout("writing a checkpoint"):
            self._saving.finish()

    def cancel(self) -> None:
        """Leave no checkpoint of a save in progress: the user quits without saving."""
        if self._saving is not None:
            self._saving.cancel()

    @contextmanager
    def waiting_for_saves(self) -> Iterator[None]:
        """Wait for the last save at the end of a run, also after a failure."""
        # After the loss of a rank, the watchdog or the launcher may end this process earlier.
        try:
            yield
        except BaseException as error:
            if self._saving is not None and isinstance(error, Exception):
                self._saving.wait(GRACE_S)
            raise
        self.ensure_saved()

    def ensure_saved(self) -> None:
        """Wait for the last save; raises if it failed."""
        self.finish()
        if self._saving is not None and self._saving.fault is not None:
            advice = "Free disk space or set another --output_dir, then --resume"
            raise CheckpointError(
                missing_run_dir(self._run_dir)
                or f"{self._saving.fault}; older ones are intact. {advice}"
            )

    @property
    def usual_save_s(self) -> float | None:
        """How long the last save took; None before the first one."""
        latest = None if self._saving is None else self._saving.wall_s
        return self._usual_save_s if latest is None else latest

    def messages(self) -> list[str]:
        """Messages about saves since the last call."""
        return [self._messages.get_nowait() for _ in range(self._messages.qsize())]


def ema_note(folder: Path, step: int) -> str:
    """A note on a checkpoint without EMA; raises if the EMA of its run is missing."""
    # A run that had none starts it from the weights; a lost one cannot be restored.
    stored = read_config_file(str(folder / PRETRAINED / TRAIN_CONFIG)).get("ema") or {}
    if stored.get("enable"):
        raise CheckpointError(
            f"{folder / PRETRAINED_EMA} is missing, but this run uses EMA. Copy the checkpoint "
            "again, or continue without EMA: --ema.enable=false"
        )
    return (
        f"NOTE: the checkpoint has no EMA; it starts from the weights of step {step}. To restart "
        f"its decay schedule there, set --ema.update_after_step={step}"
    )
