"""Trackio: a database on this machine, or a Space on the Hugging Face Hub."""

from pathlib import Path
from typing import Any

import trackio
from trackio.sqlite_storage import SQLiteStorage

from manyhands.config.schema.decoding import encode
from manyhands.observe.trackers.keys import VIDEO, Values
from manyhands.observe.trackers.notes import Notes
from manyhands.observe.trackers.tracked_run import TrackedRun
from manyhands.observe.trackers.tracker import Sent


class TrackioTracker:
    """One run of a Trackio project, found again by its name."""

    def __init__(self, run: TrackedRun, run_id: str) -> None:
        settings = run.config.trackio
        name = f"{run.job_name}-{run_id}"
        self._run: Any = trackio.init(
            project=settings.project,
            name=name,
            space_id=settings.space_id,
            config=encode(run.config),
            resume="allow",
            embed=False,
            auto_log_gpu=False,
            auto_log_cpu=False,
        )
        self.sent = read_logs(settings.project, name)
        last_step = self._run._next_step - 1
        if last_step > self.sent.last_step:
            # The database is elsewhere: in a Space, or on a server.
            self.sent.last_step = self.sent.evaluated_until = last_step
        self.facts: Notes = {"id": run_id, "project": settings.project, "name": name}
        self.facts |= {} if settings.space_id is None else {"space_id": settings.space_id}

    def log_step(self, step: int, values: Values) -> None:
        """Log the training metrics of a step."""
        self._run.log(values, step=step)

    def log_evaluation(self, step: int, values: Values, video: Path | None) -> None:
        """Log evaluation metrics at their step."""
        shown = {} if video is None else {VIDEO: trackio.Video(video)}
        self._run.log(values | shown, step=step)

    def log_checkpoint(self, checkpoint: Path) -> None:
        """Checkpoints stay in the run directory."""

    def flush(self) -> None:
        """Trackio writes within half a second by itself."""

    def finish(self, exit_code: int) -> None:
        """Wait until everything is written."""
        self._run.finish()


def read_logs(project: str, name: str) -> Sent:
    """What the database of this machine holds of a run."""
    sent = Sent()
    for row in SQLiteStorage.get_logs(project, name):
        if "train/steps" in row:
            sent.last_step = max(sent.last_step, row["step"])
        sent.evaluated |= {(row["step"], key) for key in row if key.startswith("eval/")}
    return sent
