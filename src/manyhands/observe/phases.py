"""Time of a training step by phase: on the host for a CPU, between CUDA events for a GPU.

CUDA events cost microseconds and are recorded by every step, in a captured step as nodes of its
graph. They are read only for a row of metrics, when the host has waited for the device anyway, and
then time the last step of the row.
"""

import time
from collections import defaultdict, deque
from itertools import pairwise
from typing import Any, Protocol

import torch

Times = dict[str, float]
Event = Any
"""torch.cuda.Event, whose methods torch does not type."""

BETWEEN_STEPS = ""
NUM_COPIES = 4  # Copies to remember: more than can be in flight.


class Phases(Protocol):
    """Times the phases of steps."""

    def start(self, phase: str) -> None:
        """Start a step with a phase."""

    def begin(self, phase: str) -> None:
        """End the current phase of a step and begin another."""

    def end(self) -> None:
        """End a step."""

    def lap(self) -> Times:
        """Seconds per step by phase since the last lap; the device must have finished them."""


def timed_event(external: bool = False) -> Event:
    """A CUDA event that knows its time; an external one is a node of graphs that record it."""
    cuda: Any = torch.cuda
    return cuda.Event(enable_timing=True, external=external)


class HostPhases:
    """Phases on a CPU: the means over all steps of a lap."""

    def __init__(self) -> None:
        self._sums: defaultdict[str, float] = defaultdict(float)
        self._num_steps = 0
        self._phase = BETWEEN_STEPS
        self._since = 0.0

    def start(self, phase: str) -> None:
        """Start a step with a phase."""
        self._phase, self._since = phase, time.perf_counter()

    def begin(self, phase: str) -> None:
        """End the current phase of a step and begin another."""
        now = time.perf_counter()
        self._sums[self._phase] += now - self._since
        self._phase, self._since = phase, now

    def end(self) -> None:
        """End a step."""
        self.begin(BETWEEN_STEPS)
        self._num_steps += 1

    def lap(self) -> Times:
        """Mean seconds per step by phase since the last lap; empty without a step."""
        times = {name: total / self._num_steps for name, total in self._sums.items()}
        self._sums.clear()
        self._num_steps = 0
        return times


class DevicePhases:
    """Phases on a GPU: those of the last step of a lap."""

    def __init__(self) -> None:
        # All steps have the same phases, so that a graph records the events of any other step.
        self._events: list[Event] = []
        self._names: list[str] = []
        self._number = 0

    def start(self, phase: str) -> None:
        """Start a step with a phase."""
        self._number = 0
        self._names.clear()
        self.begin(phase)

    def begin(self, phase: str) -> None:
        """End the current phase of a step and begin another."""
        if self._number == len(self._events):
            self._events.append(timed_event(external=True))
        self._events[self._number].record()
        self._names.append(phase)
        self._number += 1

    def end(self) -> None:
        """End a step."""
        self.begin(BETWEEN_STEPS)

    def lap(self) -> Times:
        """Seconds of the last step by phase; empty without a finished one."""
        times: defaultdict[str, float] = defaultdict(float)
        if self._names[-1:] != [BETWEEN_STEPS]:
            return {}
        events = self._events[: len(self._names)]
        if not all(event.query() for event in events):
            return {}
        for name, (begin, end) in zip(self._names, pairwise(events), strict=False):
            times[name] += begin.elapsed_time(end) / 1e3
        return dict(times)


class NoPhases:
    """Times nothing."""

    def start(self, phase: str) -> None:
        """Start a step."""

    def begin(self, phase: str) -> None:
        """Begin a phase."""

    def end(self) -> None:
        """End a step."""

    def lap(self) -> Times:
        """Nothing is timed."""
        return {}


def build_phases(device: torch.device) -> Phases:
    """Phases of the steps on a device."""
    return DevicePhases() if device.type == "cuda" else HostPhases()


class CopyTimer:
    """Time of copies of batches to a GPU, on a stream of their own beside the steps."""

    def __init__(self) -> None:
        self._copies: deque[tuple[Event, Event]] = deque(maxlen=NUM_COPIES)

    def note(self, begin: Event, end: Event) -> None:
        """Remember the events around a copy."""
        self._copies.append((begin, end))

    def lap(self) -> Times:
        """Seconds of the newest finished copy; empty without one."""
        for begin, end in reversed(self._copies):
            if end.query():
                return {"copy": begin.elapsed_time(end) / 1e3}
        return {}
