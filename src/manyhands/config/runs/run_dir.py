"""Files of a run directory: names, checkpoints, and which checkpoints are intact."""

from pathlib import Path

from manyhands.config.paths.similar import similar_path
from manyhands.errors import CheckpointError, EnvironmentFault
from manyhands.manifest import MANIFEST, ManifestFault, find_damage, read_manifest
from manyhands.os_errors import writing_remedy

# Layout of a run directory, with N for a step such as 000200:
#   checkpoints/N/pretrained_model/      the policy for LeRobot, and train_config.json
#   checkpoints/N/pretrained_model_ema/  with --ema.enable: the same with averaged weights
#   checkpoints/N/training_state/        what resuming needs besides weights
#   checkpoints/N/training_state/shards/ if sharded: weights and optimizer, a file per process
#   checkpoints/N/manifest.json          files, sizes, checksums; step, samples, processes, versions
#   checkpoints/last -> N
#   checkpoints/best -> N                with --keep_best: the checkpoint of the best score
CHECKPOINTS = "checkpoints"
LAST = "last"
BEST = "best"
PRETRAINED = "pretrained_model"
PRETRAINED_EMA = "pretrained_model_ema"
TRAINING_STATE = "training_state"
SHARDS = "shards"
TRAIN_CONFIG = "train_config.json"  # What LeRobot knows of a run, in its keys.
OWN_CONFIG = "manyhands_config.json"  # The whole of a run.
LOCK = ".lock"  # Locked, and naming its process, while a run continues.


def unwritable_run_dir(run_dir: Path, error: OSError) -> EnvironmentFault:
    """The error for a run directory in which the first file cannot be written."""
    remedy = writing_remedy(error, "Set another --output_dir")
    return EnvironmentFault(f"cannot write --output_dir={run_dir}: {error.strerror}. {remedy}")


def missing_run_dir(run_dir: Path) -> str | None:
    """The error for a run directory removed during the run; None if it exists."""
    if run_dir.is_dir():
        return None
    return (
        f"--output_dir={run_dir} was removed or unmounted during the run, with its checkpoints; "
        "the run ends. Restore the folder and add --resume, or start a new run"
    )


OWN_FILE = "manyhands.json"  # What only a checkpoint of ours has among its training state.


def checkpoint_dir(run_dir: Path, step: int, num_steps: int) -> Path:
    """The folder of the checkpoint after `step` steps of a run of `num_steps`."""
    return run_dir / CHECKPOINTS / f"{step:0{max(6, len(str(num_steps)))}d}"


def list_checkpoints(run_dir: Path) -> list[Path]:
    """The checkpoints of a run, including damaged ones, newest first."""
    folder = run_dir / CHECKPOINTS
    if not folder.is_dir():
        return []
    found = [path for path in folder.iterdir() if path.name.isdecimal() and path.is_dir()]
    # A run that rolled back to an older checkpoint may save smaller steps after larger ones.
    return sorted(found, key=lambda path: (saved_at(path), path.name), reverse=True)


def is_checkpoint(folder: Path) -> bool:
    """Whether a folder is a checkpoint that can be resumed."""
    return (folder / TRAINING_STATE).is_dir() and (folder / PRETRAINED).is_dir()


def saved_at(checkpoint: Path) -> float:
    """When a checkpoint was saved, from its manifest or else from its folder."""
    try:
        facts, _ = read_manifest(checkpoint)
        return float(facts["saved_at"])
    except ManifestFault:
        return checkpoint.stat().st_mtime


def checkpoint_damage(checkpoint: Path) -> str | None:
    """Describe the damage of a checkpoint; None if it is intact or has no manifest."""
    for name in (TRAINING_STATE, PRETRAINED):
        # Saves are atomic: another program has emptied such a folder.
        if not (checkpoint / name).is_dir():
            return f"{checkpoint} {f'lacks {name}' if any(checkpoint.iterdir()) else 'is empty'}"
    is_ours = (checkpoint / TRAINING_STATE / OWN_FILE).exists()
    if not is_ours and not (checkpoint / MANIFEST).exists():
        return None
    return find_damage(checkpoint)


def find_checkpoint(path: Path, flag: str = "--resume=") -> Path:
    """Find the checkpoint of a path: itself, a folder in it, or a run's newest intact one."""
    # A checkpoint that is named explicitly must be intact; `flag` is what names it.
    for candidate in (path, path.parent):
        if is_checkpoint(candidate) or candidate in list_checkpoints(candidate.parent.parent):
            fault = checkpoint_damage(candidate.resolve())
            if fault is None:
                return candidate.resolve()
            raise CheckpointError(
                f"{flag}{path}: {fault}. Name the run directory to use the newest intact "
                "checkpoint, or copy this one again"
            )
    for run_dir in (path, path.parent):
        found = newest_intact(run_dir)
        if found is not None:
            return found.resolve()
    raise CheckpointError(
        f"{flag}{path}: no checkpoint found{similar_path(path) or '.'} Name a run directory with "
        f"{CHECKPOINTS}, or one of its checkpoints"
    )


def newest_intact(run_dir: Path) -> Path | None:
    """Return the newest intact checkpoint; None if there are no checkpoints."""
    # Raises if all are damaged: a run must not restart from step 0 by default.
    faults = []
    for checkpoint in list_checkpoints(run_dir):
        fault = checkpoint_damage(checkpoint)
        if fault is None:
            return checkpoint
        faults.append(fault)
    if faults:
        listed = "\n".join(f"  {fault}" for fault in faults)
        raise CheckpointError(
            f"every checkpoint of {run_dir} is damaged:\n{listed}\nRemove them to start from step 0"
        )
    return None


def damaged_newer(checkpoint: Path) -> list[str]:
    """Describe the damaged checkpoints that are newer than this one."""
    newer = []
    for other in list_checkpoints(checkpoint.parent.parent):
        if other.resolve() == checkpoint:
            break
        newer.append(checkpoint_damage(other))
    return [fault for fault in newer if fault is not None]
