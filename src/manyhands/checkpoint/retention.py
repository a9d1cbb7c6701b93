"""Retention of checkpoints."""

import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from manyhands.atomic import replace_symlink
from manyhands.config.runs.run_dir import BEST, CHECKPOINTS, list_checkpoints
from manyhands.config.train import TrainConfig
from manyhands.manifest import ManifestFault, read_manifest

METRICS = {"success": "eval_success"}
"""Metrics of scores that have another name."""
LOWER_IS_BETTER = ("held_out_loss", "held_out_loss_ema")


@dataclass(frozen=True)
class SavedCheckpoint:
    """A checkpoint, from its manifest."""

    folder: Path
    step: int
    scores: dict[str, float]


def saved_checkpoints(run_dir: Path) -> list[SavedCheckpoint]:
    """The checkpoints of a run with a valid manifest, newest first."""
    saved = []
    for folder in list_checkpoints(run_dir):
        # A folder without a manifest is not ours to remove.
        with suppress(ManifestFault):
            facts, _ = read_manifest(folder)
            saved.append(SavedCheckpoint(folder, facts["step"], facts["scores"]))
    return saved


def expired(saved: Sequence[SavedCheckpoint], config: TrainConfig) -> list[SavedCheckpoint]:
    """Checkpoints that no retention rule keeps; never the newest."""
    if config.keep_last is None:
        return []
    best = best_checkpoint(saved, config.keep_best)
    return [
        each
        for number, each in enumerate(saved)
        if number >= config.keep_last
        and each is not best
        and not (config.keep_every and each.step % config.keep_every == 0)
    ]


def best_checkpoint(saved: Sequence[SavedCheckpoint], score: str | None) -> SavedCheckpoint | None:
    """The checkpoint with the best score; the oldest of equal ones."""
    metric = METRICS.get(str(score), str(score))
    scored = [each for each in reversed(saved) if metric in each.scores]
    sign = 1.0 if score in LOWER_IS_BETTER else -1.0
    return min(scored, key=lambda each: sign * each.scores[metric], default=None)


def apply_retention(run_dir: Path, config: TrainConfig) -> None:
    """Link the best checkpoint, and remove expired ones."""
    saved = saved_checkpoints(run_dir)
    best = best_checkpoint(saved, config.keep_best)
    if best is not None:
        replace_symlink(run_dir / CHECKPOINTS / BEST, best.folder.name)
    for each in expired(saved, config):
        # What cannot be removed now may be removed after the next save.
        with suppress(OSError):
            remove(each.folder)


def remove(folder: Path) -> None:
    """Remove a folder atomically."""
    aside = folder.with_name(f".{folder.name}.removed")
    shutil.rmtree(aside, ignore_errors=True)
    folder.rename(aside)
    shutil.rmtree(aside)


def remove_leftovers(run_dir: Path) -> None:
    """Remove leftovers of interrupted saves and removals."""
    for ending in ("partial", "shards", "removed"):
        for path in (run_dir / CHECKPOINTS).glob(f".[0-9]*.{ending}"):
            shutil.rmtree(path, ignore_errors=True)
