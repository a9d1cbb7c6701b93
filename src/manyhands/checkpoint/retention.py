"""Retention of checkpoints."""

import shutil
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from manyhands.atomic import atomic_file, replace_symlink
from manyhands.checkpoint.best_score import BestScore
from manyhands.config.runs.run_dir import BEST, CHECKPOINTS, list_checkpoints
from manyhands.config.train import TrainConfig
from manyhands.manifest import MANIFEST, ManifestFault, manifest_text, read_manifest


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


def expired(
    saved: Sequence[SavedCheckpoint], config: TrainConfig, unscored: Collection[int] = ()
) -> list[SavedCheckpoint]:
    """Checkpoints that no retention rule keeps; never the newest, nor those of unscored steps."""
    if config.keep_last is None:
        return []
    best = best_checkpoint(saved, config.keep_best)
    return [
        each
        for number, each in enumerate(saved)
        if number >= config.keep_last
        and each is not best
        and each.step not in unscored
        and not (config.keep_every and each.step % config.keep_every == 0)
    ]


def best_checkpoint(saved: Sequence[SavedCheckpoint], name: str | None) -> SavedCheckpoint | None:
    """The checkpoint with the best score of a name; the oldest of equal ones."""
    score = BestScore(name)
    scored = [each for each in reversed(saved) if score.is_in(each.scores)]
    return min(scored, key=lambda each: score.loss(each.scores), default=None)


def add_scores(run_dir: Path, step: int, scores: Mapping[str, float]) -> None:
    """Add scores to the manifest of a checkpoint that was saved without them."""
    for each in saved_checkpoints(run_dir):
        if each.step == step:
            facts, entries = read_manifest(each.folder)
            facts["scores"] |= scores
            with atomic_file(each.folder / MANIFEST) as scratch:
                scratch.write_text(manifest_text(facts, entries), encoding="utf-8")


def apply_retention(run_dir: Path, config: TrainConfig, unscored: Collection[int] = ()) -> None:
    """Link the best checkpoint, and remove expired ones."""
    saved = saved_checkpoints(run_dir)
    best = best_checkpoint(saved, config.keep_best)
    if best is not None:
        replace_symlink(run_dir / CHECKPOINTS / BEST, best.folder.name)
    for each in expired(saved, config, unscored):
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
