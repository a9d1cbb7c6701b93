"""Measures of the steps since the last row, over all ranks: global means, worst timings.

A stop request ends a lap early. Its sums go into the checkpoint, so that the resumed run logs the
same rows as an uninterrupted run.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch

from manyhands.observe.jsonl import UNFINISHED
from manyhands.observe.load_sampler import worst
from manyhands.observe.meters import NOT_TRAINING, Lap, Meters
from manyhands.parallel.world import World
from manyhands.training.periods import Periods
from manyhands.training.step.train_step import StepMetrics

RANK_LOAD = ("gpu_utilization", "gpu_memory_bytes")
"""Load that is logged for every rank."""


class Reading(NamedTuple):
    """The sums of a lap at a moment."""

    num_steps: int
    time: float
    sums: torch.Tensor
    num_sound: torch.Tensor

    @classmethod
    def at_lap_start(cls) -> "Reading":
        """The sums before the first step of a lap."""
        return cls(0, time.monotonic(), torch.zeros(()), torch.zeros(()))


class MetricsWindow:
    """Sums step results on the device and reads them once per lap."""

    def __init__(
        self, world: World, meters: Meters, samples_per_step: int, periods: Periods, step: int = 0
    ) -> None:
        self._world = world
        self._meters = meters
        self._samples_per_step = samples_per_step
        self._periods = periods
        self._step = step
        self._num_steps = 0
        self._num_timed = 0
        """Steps of the lap in this process; those before a resume took no time here."""
        self.unfinished: dict[str, Any] | None = None
        """The last lap, if it ended early: the argument of `resume`."""
        self.ranks: list[dict[str, Any]] = []
        """What each rank measured in the last lap."""
        self._names: list[str] = []
        self._sums = torch.zeros((), dtype=torch.float64)
        self._num_sound = torch.zeros((), dtype=torch.float64)
        self._lr = 0.0
        self._read = Reading.at_lap_start()

    def note(self, result: StepMetrics, lr: float) -> None:
        """Add the result of a step to the lap; a non-finite one counts for its time only."""
        values = torch.stack([*result.terms.values(), result.grad_norm]).double()
        # An overflow that a loss scaler handles leaves no gradient.
        values = values.where(~result.is_bad & values.isfinite(), 0)
        is_first = self._num_steps == 0
        self._sums = values if is_first else self._sums + values
        is_sound = (~result.is_bad).double()
        self._num_sound = is_sound if is_first else self._num_sound + is_sound
        self._names = [*result.terms, "grad_norm"]
        self._lr = lr
        self._num_steps += 1
        self._num_timed += 1
        self._step += 1

    def lap(self) -> dict[str, float]:
        """Collective. Means over the finite steps of the lap, NaN without any, and their speed.

        Starts the next lap.
        """
        measures = self._means() | {"lr": self._lr} | self._speed(self._num_timed)
        self.unfinished = None if self._is_due() else self._state()
        self._num_steps = self._num_timed = 0
        self._read = Reading.at_lap_start()
        if self.unfinished is None:
            return measures
        self.ranks = [row | {UNFINISHED: True} for row in self.ranks]
        return measures | {UNFINISHED: True}

    def recent(self) -> dict[str, float]:
        """Means and speed of this rank since the last call; waits for the device."""
        # The share of one rank in the global mean: about the mean, over as many ranks.
        now = Reading(self._num_timed, time.monotonic(), self._sums, self._num_sound)
        then, self._read = self._read, now
        num_steps, seconds = now.num_steps - then.num_steps, now.time - then.time
        means = ((now.sums - then.sums) / (now.num_sound - then.num_sound)).tolist()
        shares = dict(zip(self._names, means, strict=True))
        values = {name: share * self._world.size for name, share in shares.items()}
        values["grad_norm"] = shares["grad_norm"]
        speed = {"samples_per_s": num_steps * self._samples_per_step / seconds}
        return values | {"lr": self._lr, "step_s": seconds / num_steps} | speed

    def restart_speed(self) -> None:
        """Let the speed of `recent` leave out what came since the last row, if no step did."""
        self._read = Reading.at_lap_start()

    def restart(self, step: int) -> None:
        """Discard the lap so far, and count from a step."""
        self._num_steps = self._num_timed = 0
        self._read = Reading.at_lap_start()
        self._step = step
        self._meters.lap()

    def resume(self, unfinished: Mapping[str, Any]) -> None:
        """Continue a lap that ended early, on any number of ranks."""
        sums = torch.tensor(unfinished["sums"], dtype=torch.float64, device=self._world.device)
        if len(sums) == self._world.size:
            self._sums = sums[self._world.rank]
        else:
            # Loss terms are sums over ranks; the gradient norm is already global.
            self._sums = sums.sum(0) if self._world.is_main else torch.zeros_like(sums[0])
            self._sums[-1] = sums[0, -1]
        self._num_sound = torch.full_like(self._sums[0], unfinished["num_sound"])
        self._num_steps = unfinished["num_steps"]

    def _is_due(self) -> bool:
        periods, step = self._periods, self._step
        return periods.record(step) or periods.save(step)

    def _state(self) -> dict[str, Any]:
        """Collective."""
        return {
            "num_steps": self._num_steps,
            "num_sound": self._num_sound.item(),
            "sums": self._world.gather(self._sums.tolist()),
        }

    def _means(self) -> dict[str, float]:
        # The gradient norm is already global.
        means = self._sums / self._num_sound
        values = torch.cat([self._world.sum(means[:-1]), means[-1:]]).tolist()
        return dict(zip(self._names, values, strict=True))

    def _speed(self, num_steps: int) -> dict[str, float]:
        laps = self._world.gather(self._meters.lap())
        self.ranks = [self._rank_row(rank, lap, num_steps) for rank, lap in enumerate(laps)]
        times = slowest([lap.times for lap in laps])
        # The time of validation and evaluation does not count as step time.
        wall = times["wall"] - sum(times.get(phase, 0.0) for phase in NOT_TRAINING)
        return {
            "samples_per_s": num_steps * self._samples_per_step / wall,
            "data_wait_share": times.get("data", 0.0) / wall,
            "step_s": wall / num_steps,
            **slowest([lap.phases_s(num_steps) for lap in laps]),
            **worst([lap.load for lap in laps]),
        }

    def _rank_row(self, rank: int, lap: Lap, num_steps: int) -> dict[str, Any]:
        place = self._world.placements[rank]
        named = {"rank": rank, "host": place.host}
        named |= {"gpu": place.name if place.device.startswith("cuda") else None}
        return {
            **named,
            "step_s": lap.step_s(num_steps),
            **lap.phases_s(num_steps),
            **{name: lap.load[name] for name in RANK_LOAD if name in lap.load},
        }


def slowest(laps: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The longest time of any rank by phase."""
    names = dict.fromkeys(name for lap in laps for name in lap)
    return {name: max(lap.get(name, 0.0) for lap in laps) for name in names}
