"""How updates are carried out: one operation at a time, or recorded and replayed whole.

A recording is compared with an update made one operation at a time, from the same state and with
the same inputs, before it is relied on. Where that fails a run goes on without it, and says why.
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.distributed as dist
from torch import nn

from manyhands.parallel.streams import aside
from manyhands.parallel.world import World
from manyhands.training.backup import Backup, Tensors
from manyhands.training.regions import Regions
from manyhands.training.replay import Replay, signature_of
from manyhands.training.update import Compute, Inputs, Measures

TOLERANCES = {"graph": 1e-3, "compile": 5e-2}
"""Largest difference of an update to one made one operation at a time, relative to its size.

The same kernels may add up in another order; fused ones round bf16 in fewer places.
"""
MAX_RECORDINGS = 4
"""Shapes of batches that are recorded; others are computed one operation at a time."""
NUM_WARM_UP = 3
"""Updates before a recording, in which libraries choose their kernels."""
NUM_WARM_UP_SHARED = 11
"""The same where DDP exchanges gradients, which takes longer to settle."""

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Work:
    """An update, as whoever carries it out knows it."""

    compute: Compute
    changed: Callable[[], Tensors]
    """Every tensor that an update changes."""
    rehearse: Callable[[nn.Module, Inputs], object]
    """Run a copy of the network forward and back, with its gradients its own."""
    network: nn.Module
    world: World


class Execution(Protocol):
    """A way to carry out updates."""

    @property
    def mode(self) -> str:
        """How updates are carried out at present."""

    def __call__(self, inputs: Inputs, num_left: int) -> Measures:
        """Collective. Make an update, after which so many are left."""

    def forget(self) -> None:
        """Weights and their like have been put elsewhere."""


class Eager:
    """One operation at a time."""

    mode = "eager"

    def __init__(self, compute: Compute) -> None:
        self._compute = compute

    def __call__(self, inputs: Inputs, num_left: int) -> Measures:
        """Make an update."""
        return self._compute(inputs)

    def forget(self) -> None:
        """Nothing is remembered."""


class Recorded:
    """Replays of recordings, of compiled parts where there are any."""

    def __init__(self, work: Work, tell: Tell, regions: Regions | None = None) -> None:
        self._aim = "graph" if regions is None else "compile"
        self._work = work
        self._tell = tell
        self._regions = regions
        self._replays: dict[tuple[object, ...], Replay | None] = {}

    def __call__(self, inputs: Inputs, num_left: int) -> Measures:
        """Collective. Make an update by its recording, which is made first."""
        signature = signature_of(inputs)
        if signature not in self._replays:
            self._replays[signature] = self._recorded(inputs)
        replay = self._replays[signature]
        return self._work.compute(inputs) if replay is None else replay(inputs)

    @property
    def mode(self) -> str:
        """What it aims at, or what it came down to."""
        return self._aim if self.works else Eager.mode

    @property
    def works(self) -> bool:
        """Whether all that was tried could be recorded."""
        return None not in self._replays.values()

    def forget(self) -> None:
        """Record anew."""
        self._replays.clear()

    def _recorded(self, inputs: Inputs) -> Replay | None:
        """Collective. A recording on every rank, or on none."""
        if len(self._replays) >= MAX_RECORDINGS:
            return None
        seed, before = torch.initial_seed(), Backup(self._work.changed)
        replay, fault = None, None
        try:
            replay, fault = self._tried(inputs, seed, before)
        except RuntimeError as error:
            fault = str(error).strip().splitlines()[0]
            self._work.network.zero_grad(set_to_none=True)
            torch.cuda.empty_cache()
        before.restore()
        torch.manual_seed(seed)
        if not self._work.world.any(fault is not None):
            return replay
        self._tell(
            f"NOTE: updates are computed one operation at a time, not in the mode {self._aim}: "
            f"{fault or 'another rank cannot'}"
        )
        return None

    def _tried(self, inputs: Inputs, seed: int, before: Backup) -> tuple[Replay, str | None]:
        """A recording, and what is wrong with it."""
        compute = self._work.compute
        self._warm_up(inputs)
        before.restore()
        torch.manual_seed(seed)
        expected = compute(inputs)
        size, after = before.distance(), Backup(self._work.changed)
        with nullcontext() if self._regions is None else self._regions.compiled() as read:
            self._warm_up(inputs)
            torch.manual_seed(seed)
            replay = Replay(compute, inputs, read)
        before.restore()
        torch.manual_seed(seed)
        found = replay(inputs)
        return replay, self._difference(expected, found, after.distance() / size)

    def _warm_up(self, inputs: Inputs) -> None:
        with aside(self._work.world.device):
            for _ in range(NUM_WARM_UP_SHARED if dist.is_initialized() else NUM_WARM_UP):
                self._work.compute(inputs)

    def _difference(
        self, expected: Measures, found: Measures, of_state: torch.Tensor
    ) -> str | None:
        """What differs by more than rounding between two ways to make the same update."""
        if (expected.is_bad & found.is_bad).item():
            return None  # Neither changed anything.
        values = {
            "loss": relative(found.terms["loss"], expected.terms["loss"]),
            "gradient's norm": relative(found.grad_norm, expected.grad_norm),
            "change of weights and optimizer": of_state,
        }
        most = TOLERANCES[self._aim]
        for name, value in values.items():
            if not value.item() <= most:
                return f"the {name} differs by {value.item():.2g} of its size, more than {most:g}"
        return None


def relative(found: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    """The difference of a number, relative to what it should be."""
    return (found - expected).abs() / expected.abs().clamp(min=1e-12)
