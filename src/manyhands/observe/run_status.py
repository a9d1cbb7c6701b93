"""The state of a run, from its files alone: how far it is, how fast, and whether it continues."""

import fcntl
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from manyhands.config.runs.run_dir import CHECKPOINTS, LOCK
from manyhands.observe.diagnosis.run_verdict import read_facts
from manyhands.observe.jsonl import read_last_rows

RUN_FILE, METRICS_FILE = "run.json", "metrics.jsonl"
NUM_RECENT = 5
"""Rows whose median is the speed: the first row after a start is slow."""
TAIL_BYTES = 32 << 10
"""End of the metrics that is read: several times as long as the recent rows."""
SUCCESS = "eval_success"
"""Metric of few rows, of which the last one may be long ago."""
MAX_DEPTH = 6
"""Folders between the one that is searched and a run."""
RUNNING, KILLED = "running", "killed"


@dataclass(frozen=True, kw_only=True)
class RunStatus:
    """A run at a glance; what its files do not say is None."""

    folder: Path
    state: str
    """running, finished, stopped, diverged, failed: and the reason; else killed."""
    step: int = 0
    num_steps: int | None = None
    loss: float | None = None
    samples_per_s: float | None = None
    remaining_s: float | None = None
    """Until the last step, for a running one."""
    success: float | None = None
    changed_at: float = 0.0
    """When it last logged, in seconds since the epoch."""


def find_runs(folder: Path) -> Iterator[Path]:
    """Run directories in a folder, itself included; links are not followed."""
    for place, folders, files in os.walk(folder):
        depth = len(Path(place).relative_to(folder).parts)
        if is_run(Path(place), files):
            yield Path(place)
            folders.clear()
        folders[:] = sorted(
            name for name in folders if name != CHECKPOINTS and not name.startswith(".")
        )
        if depth == MAX_DEPTH:
            folders.clear()


def is_run(folder: Path, files: Collection[str]) -> bool:
    """Whether a folder with these files belongs to a run, however early it ended."""
    # Before its first row a run has no metrics; without an ending, run.json is another program's.
    if RUN_FILE in files and (METRICS_FILE in files or "ending" in read_facts(folder)):
        return True
    # A run that has just begun has only its lock.
    return LOCK in files and lock_holder(folder) is not None


def read_status(run_dir: Path) -> RunStatus:
    """The status of a run; damaged files are as good as missing ones."""
    facts = read_facts(run_dir)
    rows = read_last_rows(run_dir / METRICS_FILE, TAIL_BYTES, SUCCESS)
    step = _count(rows[-1] if rows else {}, "step") or 0
    num_steps = _count(facts.get("budget"), "steps")
    recent = rows[-NUM_RECENT:]
    step_s = _median(recent, "step_s")
    state = run_state(run_dir, facts)
    is_running = state == RUNNING
    left_s = None if num_steps is None or step_s is None else (num_steps - step) * step_s
    return RunStatus(
        folder=run_dir,
        state=state,
        step=step,
        num_steps=num_steps,
        loss=_last(rows[-1:], "loss"),
        samples_per_s=_median(recent, "samples_per_s"),
        remaining_s=left_s if is_running else None,
        success=_last(rows, SUCCESS),
        changed_at=_changed_at(run_dir),
    )


def run_state(run_dir: Path, facts: Mapping[str, Any]) -> str:
    """Whether a run continues, else its ending in `run.json`; killed if there is none."""
    return RUNNING if lock_holder(run_dir) is not None else str(facts.get("ending") or KILLED)


def lock_holder(run_dir: Path) -> str | None:
    """The process that holds the lock of a run; None if none does."""
    try:
        with (run_dir / LOCK).open("rb") as file:
            holder = file.read().decode(errors="replace")
            try:
                fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except (BlockingIOError, PermissionError):
                return holder or "unknown"
            except OSError:
                # The filesystem has no locks: a run that ends clears the name.
                return holder or None
    except OSError:
        return None
    return None


def _count(values: Any, name: str) -> int | None:
    value = values.get(name) if isinstance(values, dict) else None
    return value if isinstance(value, int) else None


def _numbers(rows: list[dict[str, Any]], name: str) -> list[float]:
    return [row[name] for row in rows if isinstance(row.get(name), int | float)]


def _median(rows: list[dict[str, Any]], name: str) -> float | None:
    values = _numbers(rows, name)
    return median(values) if values else None


def _last(rows: list[dict[str, Any]], name: str) -> float | None:
    return next(reversed(_numbers(rows, name)), None)


def _changed_at(run_dir: Path) -> float:
    for name in (METRICS_FILE, RUN_FILE, LOCK):
        with suppress(OSError):
            return (run_dir / name).stat().st_mtime
    return 0.0
