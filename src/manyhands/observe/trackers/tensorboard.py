"""TensorBoard: event files, one for each process that trained the run."""

from datetime import UTC, datetime
from pathlib import Path

from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from manyhands.observe.trackers.keys import Values
from manyhands.observe.trackers.notes import Notes
from manyhands.observe.trackers.tracked_run import TrackedRun
from manyhands.observe.trackers.tracker import Sent


class TensorboardTracker:
    """The event files of a run."""

    def __init__(self, run: TrackedRun) -> None:
        folder = run.config.tensorboard.folder or run.run_dir / "tensorboard"
        self.sent = read_events(folder)
        self.facts: Notes = {"folder": str(folder)}
        self._writer = EventFileWriter(str(folder))

    def log_step(self, step: int, values: Values) -> None:
        """Write the training metrics of a step as one event, completely or not at all."""
        summary = Summary(
            value=[Summary.Value(tag=name, simple_value=value) for name, value in values.items()]
        )
        now = datetime.now(UTC).timestamp()
        self._writer.add_event(Event(step=step, wall_time=now, summary=summary))

    def log_evaluation(self, step: int, values: Values, video: Path | None) -> None:
        """Write evaluation metrics at their step; videos would need another library."""
        self.log_step(step, values)

    def log_checkpoint(self, checkpoint: Path) -> None:
        """TensorBoard has no checkpoints."""

    def flush(self) -> None:
        """Write events to the file."""
        self._writer.flush()

    def finish(self, exit_code: int) -> None:
        """Close the file."""
        self._writer.close()


def read_events(folder: Path) -> Sent:
    """What the event files of a folder hold; an event truncated by a crash is skipped."""
    sent = Sent()
    for file in sorted(folder.glob("events.out.tfevents.*")):
        for event in EventFileLoader(str(file)).Load():
            names = {value.tag for value in event.summary.value}
            if any(name.startswith("train/") for name in names):
                sent.last_step = max(sent.last_step, event.step)
            sent.evaluated |= {(event.step, name) for name in names if name.startswith("eval/")}
    return sent
