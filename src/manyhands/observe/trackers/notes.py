"""Notes of a tracker in the run directory: the id of its run and where to find it."""

import json
from pathlib import Path
from typing import Any

from manyhands.atomic import atomic_file
from manyhands.observe.trackers.tracked_run import FOLDER

Notes = dict[str, Any]


def notes_file(run_dir: Path, name: str) -> Path:
    """The file of a tracker's notes: the id of its run and where to find it."""
    return run_dir / FOLDER / f"{name}.json"


def read_notes(run_dir: Path, name: str) -> Notes:
    """The notes of a tracker; empty without any."""
    try:
        notes: Notes = json.loads(notes_file(run_dir, name).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return notes


def write_notes(run_dir: Path, name: str, notes: Notes) -> None:
    """Replace the notes of a tracker."""
    path = notes_file(run_dir, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(path) as scratch:
        scratch.write_text(json.dumps(notes, indent=2), encoding="utf-8")
