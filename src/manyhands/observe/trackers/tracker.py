"""What every tracker can do, and what it already holds of a run."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from manyhands.observe.trackers.keys import Values


@dataclass
class Sent:
    """What a tracker holds, as read from the tracker itself."""

    last_step: int = 0
    """The last step with training metrics."""
    evaluated: set[tuple[int, str]] = field(default_factory=set)
    """Steps and names of evaluation metrics."""
    evaluated_until: int = 0
    """The last step whose evaluation metrics it may hold, if it cannot name them."""
    checkpoints: set[str] = field(default_factory=set)
    """Names of checkpoints."""


class Tracker(Protocol):
    """One run in one tracker."""

    sent: Sent
    facts: dict[str, Any]
    """Where to find the run, for run.json; `warning` is logged."""

    def log_step(self, step: int, values: Values) -> None:
        """Log the training metrics of a step that is later than all before."""

    def log_evaluation(self, step: int, values: Values, video: Path | None) -> None:
        """Log evaluation metrics of this or an earlier step."""

    def log_checkpoint(self, checkpoint: Path) -> None:
        """Log a checkpoint."""

    def flush(self) -> None:
        """Write what is buffered."""

    def finish(self, exit_code: int) -> None:
        """Complete the run."""
