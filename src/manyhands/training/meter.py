"""Measures of the updates since the last log, over all ranks: global means, worst timings."""

import math

import torch
from torch import Tensor

from manyhands.errors import Diverged
from manyhands.observe.clock import Clock
from manyhands.parallel.world import World
from manyhands.training.learner import UpdateResult


class Meter:
    """Collects update results on the device and reads them once per lap."""

    def __init__(self, world: World, clock: Clock, samples_per_step: int) -> None:
        self._world = world
        self._clock = clock
        self._samples_per_step = samples_per_step
        self._results: list[UpdateResult] = []

    def note(self, result: UpdateResult) -> None:
        """Take an update's result into the lap."""
        self._results.append(result)

    def lap(self) -> dict[str, float]:
        """Collective. Means over the lap's updates and their speed; starts the next lap."""
        results, self._results = self._results, []
        measures = self._means(results) | {"lr": results[-1].lr}
        measures |= self._speed(len(results))
        broken = [name for name, value in measures.items() if not math.isfinite(value)]
        if broken:
            raise Diverged(
                f"training diverged: {', '.join(broken)} is not finite, and nothing is saved; "
                "try a smaller --optimizer.lr, or look for bad values in the dataset"
            )
        return measures

    def _means(self, results: list[UpdateResult]) -> dict[str, float]:
        names = list(results[0].terms)
        terms = torch.stack([_mean([result.terms[name] for result in results]) for name in names])
        norm = _mean([result.grad_norm for result in results])
        values = torch.cat([self._world.sum(terms.double()), norm.double().view(1)]).tolist()
        return dict(zip([*names, "grad_norm"], values, strict=True))

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


def _mean(values: list[Tensor]) -> Tensor:
    return torch.stack(values).mean()
