"""Warns of loss spikes and of a non-finite held-out loss, without any effect on training."""

import math
from collections import deque
from collections.abc import Iterable
from statistics import median

from manyhands.observe.progress_line import Metrics
from manyhands.observe.run_log import NullRunLog, RunLog

WINDOW = 50  # Recent losses that a new one is compared with.
MIN_HISTORY = 10
MAX_DEVIATIONS = 6.0
MIN_FACTOR = 2.0  # A loss below this multiple of the median is no spike, however steady losses are.
TO_DEVIATION = 1.4826
"""Factor from the median absolute deviation to the standard deviation of a normal."""


class LossSpikes:
    """Checks metrics as they are logged."""

    def __init__(self, run_log: RunLog | NullRunLog) -> None:
        self._run_log = run_log
        self._losses: deque[float] = deque(maxlen=WINDOW)

    def on(self, step: int, measures: Metrics) -> Metrics:
        """Marks to log with the metrics of a step."""
        for name, value in measures.items():
            if name.startswith("held_out") and not math.isfinite(value):
                self._run_log.log_line(f"WARNING: {name} is {value} after step {step}")
        loss, usual = measures["loss"], list(self._losses)
        self._losses.append(loss)
        if not is_spike(loss, usual):
            return {}
        self._run_log.log_line(
            f"WARNING: loss spike at step {step}: {loss:.4g}; median of the last {len(usual)} "
            f"losses: {median(usual):.4g}"
        )
        return {"loss_spike": True}


def is_spike(loss: float, recent: Iterable[float]) -> bool:
    """Whether a loss is far above recent ones, relative to their deviation."""
    # Compares logarithms; skips values without one and non-finite values.
    logs = [math.log(each) for each in recent if 0 < each < math.inf]
    if len(logs) < MIN_HISTORY or not 0 < loss < math.inf:
        return False
    usual = median(logs)
    deviation = TO_DEVIATION * median(abs(each - usual) for each in logs)
    return math.log(loss) - usual > max(MAX_DEVIATIONS * deviation, math.log(MIN_FACTOR))
