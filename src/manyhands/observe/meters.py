"""All that a rank measures of itself between two rows: times, phases of steps, load."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import NamedTuple

from manyhands.observe.clock import Clock
from manyhands.observe.gpu_load import Load
from manyhands.observe.load_sampler import LoadSampler
from manyhands.observe.phases import Times

Source = Callable[[], Times]
"""Returns the seconds per step by phase since its last call."""

NOT_TRAINING = ("validate", "evaluate")
"""Phases whose time does not count as step time."""


class Lap(NamedTuple):
    """The measurements of one rank."""

    times: Times
    """Seconds by phase of the loop, and `wall`."""
    phases: Times
    """Seconds per step by phase of a step."""
    load: Load

    def step_s(self, num_steps: int) -> float:
        """Seconds per step of this rank."""
        others = sum(self.times.get(phase, 0.0) for phase in NOT_TRAINING)
        return (self.times["wall"] - others) / num_steps

    def phases_s(self, num_steps: int) -> dict[str, float]:
        """Seconds per step by phase, as named in the files of a run."""
        skipped = ("wall", *NOT_TRAINING)
        own = {name: total / num_steps for name, total in self.times.items() if name not in skipped}
        return {f"{name}_s": seconds for name, seconds in {**own, **self.phases}.items()}


@dataclass(frozen=True)
class Meters:
    """The instruments of a rank."""

    clock: Clock
    phases: Sequence[Source] = ()
    load: LoadSampler | None = None

    def timing(self, phase: str) -> AbstractContextManager[None]:
        """Count a block's time towards a phase of the loop."""
        return self.clock.timing(phase)

    def sampling(self) -> AbstractContextManager[None]:
        """Sample the load of this rank inside a block."""
        return nullcontext() if self.load is None else self.load.sampling()

    def lap(self) -> Lap:
        """The measurements since the last lap; the device must have finished its steps."""
        phases: Times = {}
        for source in self.phases:
            phases |= source()
        return Lap(self.clock.lap(), phases, {} if self.load is None else self.load.lap())
