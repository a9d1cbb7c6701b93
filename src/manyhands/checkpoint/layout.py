"""Where checkpoints are in a run directory."""

from pathlib import Path

from manyhands.config.folders import CHECKPOINTS, LAST, PRETRAINED, TRAINING_STATE
from manyhands.errors import CheckpointError


def checkpoint_dir(run_dir: Path, step: int, num_steps: int) -> Path:
    """The folder of the checkpoint after `step` updates of a run of `num_steps`."""
    return run_dir / CHECKPOINTS / f"{step:0{max(6, len(str(num_steps)))}d}"


def find_checkpoint(path: Path) -> Path:
    """The checkpoint a path stands for: itself, one of its parts, or the newest of a run."""
    for candidate in (path, path.parent, path / CHECKPOINTS / LAST):
        if (candidate / TRAINING_STATE).is_dir() and (candidate / PRETRAINED).is_dir():
            return candidate.resolve()
    raise CheckpointError(
        f"--resume={path}: no checkpoint there; give a run directory with {CHECKPOINTS}/{LAST}, or "
        "one of its checkpoints"
    )
