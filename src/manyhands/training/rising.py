"""Updates that begin as plain recordings, and become compiled ones where that is faster.

Compiling takes a minute, which a thread spends while training goes on. When a run changes over
depends on the machine; so it does not where every bit has to be the same each time.
"""

import threading
import time
from collections.abc import Callable

import torch

from manyhands.parallel.streams import aside
from manyhands.training.execution import Recorded, Tell, Work
from manyhands.training.regions import Regions
from manyhands.training.update import Inputs, Measures

PERIOD = 100
"""Updates between looks at how it goes."""
MIN_LEFT_S = 300.0
"""A run with less time left than this has nothing to gain from compiling."""

COMPILING = "compiling"
"""Name of the thread that does."""

Stage = Callable[[Inputs, int, float], "Stage | None"]
"""What to look at next; None when all is settled."""


def is_compiling() -> bool:
    """Whether a thread of this process compiles something."""
    return any(thread.name == COMPILING for thread in threading.enumerate())


class Rising:
    """A recording, then perhaps a compiled one; all ranks change over together."""

    def __init__(
        self, graph: Recorded, compiled: Recorded, regions: Regions, work: Work, tell: Tell
    ) -> None:
        self._graph = graph
        self._compiled = compiled
        self._regions = regions
        self._work = work
        self._tell = tell
        self._current = graph
        self._num_made = 0
        self._since = 0.0
        self._graph_s = 0.0
        self._fault: str | None = None
        self._thread = threading.Thread()
        self._stage: Stage | None = self._settle

    @property
    def mode(self) -> str:
        """How updates are carried out at present."""
        return self._current.mode

    def __call__(self, inputs: Inputs, num_left: int) -> Measures:
        """Collective. Make an update."""
        measures = self._current(inputs, num_left)
        self._num_made += 1
        if self._stage is not None and self._num_made % PERIOD == 0:
            self._stage = self._stage(inputs, num_left, self._step_s())
        return measures

    def forget(self) -> None:
        """Record anew."""
        self._graph.forget()
        self._compiled.forget()

    def _step_s(self) -> float:
        """Collective. How long updates took since this was asked last, on the slowest rank."""
        now = time.monotonic()
        seconds, self._since = (now - self._since) / PERIOD, now
        return max(self._work.world.gather(seconds))

    def _settle(self, inputs: Inputs, num_left: int, step_s: float) -> Stage | None:
        """The first period is for recording, and tells nothing."""
        return self._begin

    def _begin(self, inputs: Inputs, num_left: int, step_s: float) -> Stage | None:
        if not self._graph.works or num_left * step_s < MIN_LEFT_S:
            return None
        given = inputs.mapped(torch.clone)
        self._thread = threading.Thread(
            target=self._compile, args=(given,), name=COMPILING, daemon=True
        )
        self._thread.start()
        return self._await

    def _compile(self, inputs: Inputs) -> None:
        try:
            with aside(self._work.world.device):
                self._regions.compile_ahead(lambda twin: self._work.rehearse(twin, inputs))
        except (RuntimeError, OSError) as error:
            self._fault = str(error).strip().splitlines()[0]

    def _await(self, inputs: Inputs, num_left: int, step_s: float) -> Stage | None:
        world = self._work.world
        if world.any(self._thread.is_alive()):
            return self._await
        if world.any(self._fault is not None):
            self._tell(f"NOTE: updates stay in the mode graph: {self._fault or 'a rank cannot'}")
            return None
        return self._change_over

    def _change_over(self, inputs: Inputs, num_left: int, step_s: float) -> Stage | None:
        self._graph_s, self._current = step_s, self._compiled
        return self._settle_compiled

    def _settle_compiled(self, inputs: Inputs, num_left: int, step_s: float) -> Stage | None:
        return self._decide

    def _decide(self, inputs: Inputs, num_left: int, step_s: float) -> Stage | None:
        told = f"updates take {step_s * 1e3:.1f} ms compiled and {self._graph_s * 1e3:.1f} ms plain"
        if self._compiled.works and step_s < self._graph_s:
            self._graph.forget()
            self._tell(f"{told}: the run goes on compiled")
        else:
            self._compiled.forget()
            self._current = self._graph
            self._tell(f"{told}: the run goes on plain")
        return None
