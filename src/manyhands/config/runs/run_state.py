"""What a run directory says of its run before anything is loaded: in use, or finished."""

import fcntl
import json
import socket
from pathlib import Path
from typing import Any

from manyhands.config.runs.run_dir import (
    CHECKPOINTS,
    LAST,
    LOCK,
    OWN_CONFIG,
    PRETRAINED,
    TRAINING_STATE,
)
from manyhands.config.train import TrainConfig
from manyhands.errors import UserError
from manyhands.manifest import ManifestFault, read_manifest

FINISHED = "finished"  # The ending of a run that did all its steps.


def refuse_folder_in_use(run_dir: Path) -> None:
    """Raise if a process of this machine trains in a run directory."""
    # The lock of another machine may be that of a lost one: whoever takes it waits.
    # Not for the process that holds the lock: closing the file would release it.
    holder = lock_holder(run_dir)
    if holder is not None and holder.endswith(here()):
        raise folder_in_use(run_dir, holder)


def lock_holder(run_dir: Path) -> str | None:
    """Who holds the lock of a run directory; None if nobody does."""
    try:
        with (run_dir / LOCK).open("rb+") as file:
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except (BlockingIOError, PermissionError):
                return file.read().decode()
    except OSError:
        return None
    return None


def folder_in_use(run_dir: Path, holder: str) -> UserError:
    """The error for a run directory in which another process trains."""
    named = holder or "a process that has not written its name yet"
    return UserError(
        f"--output_dir={run_dir} is in use by a running job ({named}). Stop it, or choose "
        f"another folder. If it no longer runs, remove {LOCK} there"
    )


def here() -> str:
    """This machine, as locks name it."""
    return f"on {socket.gethostname()}"


def finished_message(config: TrainConfig) -> str | None:
    """The message for a resumed run that has nothing left to do; None if it has."""
    if not config.resumes or (config.policy is not None and config.policy.push_to_hub):
        return None
    checkpoint = Path(str(config.resume))
    run_dir = checkpoint.parent.parent
    try:
        ending = _read(run_dir / "run.json").get("ending")
        num_steps = _steps_of(config, _read(checkpoint / TRAINING_STATE / OWN_CONFIG))
        step = int(read_manifest(checkpoint)[0]["step"])
    except (OSError, ValueError, KeyError, ManifestFault):
        return None
    if ending != FINISHED or num_steps is None or step < num_steps:
        return None
    policy = run_dir / CHECKPOINTS / LAST / PRETRAINED
    return (
        f"{run_dir} is finished: step {step} of {num_steps}; policy: {policy}. To train longer, "
        f"set --steps above {step}"
    )


def _steps_of(config: TrainConfig, stored: dict[str, Any]) -> int | None:
    """The steps of a budget; None if they depend on the dataset in a new way."""
    if config.steps is not None:
        return config.steps
    is_same = (config.epochs, config.samples) == (stored["epochs"], stored["samples"])
    return int(stored["steps"]) if is_same else None


def _read(file: Path) -> dict[str, Any]:
    document = json.loads(file.read_text(encoding="utf-8"))
    return document if isinstance(document, dict) else {}
