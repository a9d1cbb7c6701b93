"""Follows a run by its files, and logs them to a tracker.

The rows of `metrics.jsonl` are the queue: training never waits for a tracker. A step is logged if
the tracker does not hold it yet. The tracker itself is asked what it holds, because what it had
accepted may have been lost when the run was killed.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from manyhands.config.runs.run_dir import CHECKPOINTS, LAST, list_checkpoints
from manyhands.observe.trackers.keys import VIDEO, eval_counts, eval_values, train_values
from manyhands.observe.trackers.rows import RowFile
from manyhands.observe.trackers.tracked_run import TrackedRun
from manyhands.observe.trackers.tracker import Tracker

POLL_S = 1.0


class Follower:
    """Logs the rows and checkpoints of a run to a tracker, each once."""

    def __init__(self, tracker: Tracker, run: TrackedRun) -> None:
        self._tracker = tracker
        self._run = run
        self._rows = RowFile(run.run_dir / "metrics.jsonl")
        self._newest = ""

    def catch_up(self) -> None:
        """Log everything that is new since the last call."""
        for row in self._rows.read():
            self._log_row(row)
        self._tracker.flush()
        with suppress(OSError):
            # Retention may remove a checkpoint at any moment.
            self._log_checkpoints()

    def _log_row(self, row: dict[str, Any]) -> None:
        step, sent = row["step"], self._tracker.sent
        if step > sent.last_step:
            self._tracker.log_step(step, train_values(row, self._run))
            sent.last_step = step
        found = eval_values(row) if step > sent.evaluated_until else {}
        new = {name: value for name, value in found.items() if (step, name) not in sent.evaluated}
        if new:
            has_video = "eval/pc_success" in new and (step, VIDEO) not in sent.evaluated
            video = self._run.video_of(step) if has_video else None
            self._tracker.log_evaluation(step, new | eval_counts(step, self._run), video)
            sent.evaluated |= {(step, name) for name in new}

    def _log_checkpoints(self) -> None:
        newest = (self._run.run_dir / CHECKPOINTS / LAST).resolve(strict=True).name
        if newest == self._newest:
            return
        for checkpoint in sorted(list_checkpoints(self._run.run_dir)):
            is_new = checkpoint.name not in self._tracker.sent.checkpoints
            if is_new and int(checkpoint.name) >= max(1, self._run.start_step):
                self._tracker.log_checkpoint(checkpoint)
                self._tracker.sent.checkpoints.add(checkpoint.name)
        self._newest = newest


def follow(tracker: Tracker, run: TrackedRun, ends_within: Callable[[float], bool]) -> None:
    """Log a run until it ends, which is looked at for some seconds at a time."""
    follower = Follower(tracker, run)
    while not ends_within(POLL_S):
        follower.catch_up()
    follower.catch_up()
