"""Time of a run by phase."""

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager


class Clock:
    """Sums the time of named phases between two laps."""

    def __init__(self, on_phase: Callable[[str], None] = lambda _: None) -> None:
        self._on_phase = on_phase  # Called at the start of every phase.
        self._phases: defaultdict[str, float] = defaultdict(float)
        self._lap_start = time.perf_counter()
        self._ended: dict[str, float] = {}
        """When phases ended last; infinity inside of one."""

    @contextmanager
    def timing(self, phase: str) -> Iterator[None]:
        """Count the block's time towards a phase."""
        self._on_phase(phase)
        start = time.perf_counter()
        self._ended[phase] = math.inf
        try:
            yield
        finally:
            self._ended[phase] = time.perf_counter()
            self._phases[phase] += self._ended[phase] - start

    def seconds_since(self, phases: Iterable[str]) -> float:
        """Seconds since the last of some phases ended; zero inside of one, infinity without any."""
        last = max(self._ended.get(phase, -math.inf) for phase in phases)
        return max(0.0, time.perf_counter() - last)

    def lap(self) -> dict[str, float]:
        """Seconds by phase and `wall` since the last lap; starts the next one."""
        now = time.perf_counter()
        times = {**self._phases, "wall": now - self._lap_start}
        self._phases.clear()
        self._lap_start = now
        return times
