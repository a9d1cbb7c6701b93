"""Measures of the updates since the last log, over all ranks: global means, worst timings."""

import torch

from manyhands.observe.clock import Clock
from manyhands.parallel.world import World
from manyhands.training.update import Measures


class Meter:
    """Adds update results up on the device and reads them once per lap."""

    def __init__(self, world: World, clock: Clock, samples_per_step: int) -> None:
        self._world = world
        self._clock = clock
        self._samples_per_step = samples_per_step
        self._num_steps = 0
        self._names: list[str] = []
        self._sums = torch.zeros((), dtype=torch.float64)
        self._num_sound = torch.zeros((), dtype=torch.float64)
        self._lr = 0.0

    def note(self, result: Measures, lr: float) -> None:
        """Take an update's result into the lap; a bad one counts for its time alone."""
        values = torch.stack([*result.terms.values(), result.grad_norm]).double()
        # An overflow that a loss scaler answers leaves no gradient.
        values = values.where(~result.is_bad & values.isfinite(), 0)
        is_first = self._num_steps == 0
        self._sums = values if is_first else self._sums + values
        is_sound = (~result.is_bad).double()
        self._num_sound = is_sound if is_first else self._num_sound + is_sound
        self._names = [*result.terms, "grad_norm"]
        self._lr = lr
        self._num_steps += 1

    def lap(self) -> dict[str, float]:
        """Collective. Means over the lap's sound updates, NaN without any, and their speed.

        Starts the next lap.
        """
        measures = self._means() | {"lr": self._lr} | self._speed(self._num_steps)
        self._num_steps = 0
        return measures

    def restart(self) -> None:
        """Forget the lap so far."""
        self._num_steps = 0
        self._clock.lap()

    def _means(self) -> dict[str, float]:
        # The gradient is that of all ranks already.
        means = self._sums / self._num_sound
        values = torch.cat([self._world.sum(means[:-1]), means[-1:]]).tolist()
        return dict(zip(self._names, values, strict=True))

    def _speed(self, num_steps: int) -> dict[str, float]:
        laps = self._world.gather(self._clock.lap())
        worst = {phase: max(lap.get(phase, 0.0) for lap in laps) for phase in laps[0]}
        # Measuring held-out samples is no part of an update.
        wall = worst.pop("wall") - worst.pop("validate", 0.0)
        return {
            "samples_per_s": num_steps * self._samples_per_step / wall,
            "data_wait_share": worst.get("data", 0.0) / wall,
            "step_s": wall / num_steps,
            **{f"{phase}_s": seconds / num_steps for phase, seconds in worst.items()},
        }
