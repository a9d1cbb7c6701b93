"""Where things are in a run directory, as LeRobot lays it out.

```
checkpoints/
  000200/
    pretrained_model/   the policy, loadable by LeRobot, and train_config.json
    training_state/     what resuming needs beside it
  last -> 000200
```
"""

from pathlib import Path

from manyhands.errors import CheckpointError

CHECKPOINTS = "checkpoints"
LAST = "last"
PRETRAINED = "pretrained_model"
TRAINING_STATE = "training_state"


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
