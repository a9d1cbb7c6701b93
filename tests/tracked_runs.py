"""What trackers hold of a run, read from their files by other means than ours."""

import json
import os
import sqlite3
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def tensorboard_rows(folder: Path) -> list[Row]:
    """The scalars of event files as TensorBoard loads them, each a row."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    found.Reload()
    return [
        {"_step": event.step, name: event.value}
        for name in found.Tags()["scalars"]
        for event in found.Scalars(name)
    ]


def wandb_rows(run_dir: Path) -> list[Row]:
    """The history of all wandb files of a run, in the order of its processes."""
    from manyhands.observe.trackers.wandb_file import read_history, run_files

    ids = {file.stem.removeprefix("run-") for file in run_dir.glob("wandb/*/run-*.wandb")}
    assert len(ids) <= 1, f"several runs: {ids}"
    return [
        row
        for each in ids
        for file in run_files(run_dir / "wandb", each)
        for row in read_history(file)
    ]


def trackio_rows(project: str = "manyhands") -> list[Row]:
    """The rows of a project in Trackio's database, which hold one run."""
    with sqlite3.connect(Path(os.environ["TRACKIO_DIR"]) / f"{project}.db") as database:
        # A process that is killed early leaves a database without tables.
        has_rows = database.execute("select 1 from sqlite_master where name = 'metrics'").fetchone()
        query = "select run_name, step, metrics from metrics order by id"
        found = database.execute(query) if has_rows else []
        rows = [(name, {"_step": step} | json.loads(text)) for name, step, text in found]
    assert len({name for name, _ in rows}) <= 1, "several runs"
    return [row for _, row in rows]


def rows_in(tracker: str, run_dir: Path) -> list[Row]:
    """What a tracker holds of the only run it has."""
    match tracker:
        case "wandb":
            return wandb_rows(run_dir)
        case "trackio":
            return trackio_rows()
    return tensorboard_rows(run_dir / "tensorboard")


def values_in(tracker: str, run_dir: Path, name: str) -> list[tuple[int, float]]:
    """Steps and values of a metric, in the order in which the tracker has them."""
    return [(row["_step"], row[name]) for row in rows_in(tracker, run_dir) if name in row]
