"""Names in a run directory, as LeRobot lays it out.

```
checkpoints/
  000200/
    pretrained_model/       the policy, loadable by LeRobot, and train_config.json
    pretrained_model_ema/   with --ema.enable: the same with averaged weights
    training_state/         what resuming needs beside them
      shards/               of a sharded run: weights and optimizer, a file per process
    manifest.json           files, sizes, checksums; step, samples, processes, versions
  last -> 000200
  best -> 000100            with --keep_best: the checkpoint of the best score
```
"""

from pathlib import Path

CHECKPOINTS = "checkpoints"
LAST = "last"
BEST = "best"
PRETRAINED = "pretrained_model"
AVERAGED = "pretrained_model_ema"
TRAINING_STATE = "training_state"
SHARDS = "shards"


def removal_of(run_dir: Path) -> str | None:
    """What to tell of a run directory that was removed during the run; None if it is there."""
    if run_dir.is_dir():
        return None
    return (
        f"--output_dir={run_dir} was removed or unmounted during the run, with its checkpoints; "
        "the run ends. Restore the folder and add --resume, or start a new run"
    )
