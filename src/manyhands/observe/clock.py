"""Where the time of a run goes, by phase."""

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager


class Clock:
    """Adds up the time of named phases between two laps."""

    def __init__(self) -> None:
        self._phases: defaultdict[str, float] = defaultdict(float)
        self._lap_start = time.perf_counter()

    @contextmanager
    def timing(self, phase: str) -> Iterator[None]:
        """Count the block's time towards a phase."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self._phases[phase] += time.perf_counter() - start

    def lap(self) -> dict[str, float]:
        """Seconds by phase and `wall` since the last lap; starts the next one."""
        now = time.perf_counter()
        times = {**self._phases, "wall": now - self._lap_start}
        self._phases.clear()
        self._lap_start = now
        return times
