"""Progress of long work as lines, for logs in which a bar would leave nothing."""

import sys
import time

from manyhands import units

PERIOD_S = 60.0


class ProgressLines:
    """Prints to standard error how far work is, once a minute."""

    def __init__(self, doing: str, period_s: float | None = None) -> None:
        self._doing = doing
        self._period_s = PERIOD_S if period_s is None else period_s
        self._started = self._printed = time.monotonic()

    def show(self, done: int, total: int) -> None:
        """Print a line if the last one is a minute old."""
        now = time.monotonic()
        if now - self._printed < self._period_s:
            return
        self._printed = now
        print(self._line(done, total, now - self._started), file=sys.stderr, flush=True)

    def _line(self, done: int, total: int, elapsed_s: float) -> str:
        share = done / max(total, 1)
        left = f", about {units.duration(elapsed_s * (1 - share) / share)} left" if done else ""
        return f"{self._doing}: {done:,} of {total:,} ({share:.0%}){left}"
