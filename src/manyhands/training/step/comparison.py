"""Compares a captured step with an eager step.

Both start from the same state with the same inputs and the same dropout. Kernels may sum in another
order, and fused kernels round bf16 in fewer places. Adam magnifies that: where a gradient is close
to zero, its sign decides the step. So optimizer state that is linear in the gradient is compared,
not weights. How far rounding moves a gradient depends on the layer: a bias before a softmax has no
gradient but rounding errors. So compiled kernels are also compared tensor by tensor,
relative to the change that rounding-sized noise in the weights causes in an eager step.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from manyhands.training.step.state_backup import StateBackup, total_norm
from manyhands.training.step.train_step import StepFunction, StepInputs, StepMetrics

ROUNDING = 2.0**-9
"""Relative size of the noise: the largest rounding error of a bf16 number."""
NUM_NOISY_STEPS = 3
"""Noise may flip the sign of an L1 loss or not, which one step alone does not show."""
MAX_TIMES_NOISE = 8.0
"""How many times as far as the noise compiled kernels may move the gradient of a tensor."""
MAX_TIMES_TOTAL_NOISE = 1.5
"""The same for all tensors together. Batch norm over few samples makes it 0.4 of their size."""
MAX_OVERALL = 0.75
"""The largest difference that noise excuses; a gradient that is missing differs by 1."""
MAX_FRACTION = 0.05
"""Fraction of a tensor's own change that is always allowed."""
MOMENTS = ("exp_avg", "momentum_buffer")
"""Optimizer state that is linear in the gradient."""


@dataclass(frozen=True)
class Tolerance:
    """The largest relative difference of a step from an eager one."""

    overall: float
    by_tensor: bool
    """Whether each tensor is judged by itself too."""


TOLERANCES = {"graph": Tolerance(1e-3, False), "compile": Tolerance(5e-2, True)}


class Comparison:
    """An eager step, and the state that a captured step must match."""

    def __init__(
        self, compute: StepFunction, inputs: StepInputs, before: StateBackup, mode: str
    ) -> None:
        self._tolerance = TOLERANCES[mode]
        self._noise: dict[Any, Tensor] = {}
        seed = torch.initial_seed()
        before.restore()
        self._expected = compute(inputs)
        self._sizes = before.distances()
        self._after = StateBackup(before.find)
        if self._tolerance.by_tensor:
            for number in range(NUM_NOISY_STEPS):
                before.restore()
                add_noise(before, ROUNDING, number)
                torch.manual_seed(seed)
                compute(inputs)
                # The remaining difference is the effect of noise on the step.
                add_noise(before, -ROUNDING, number)
                for key, moved in self._after.distances().items():
                    self._noise[key] = torch.maximum(moved, self._noise.get(key, moved))

    def fault(self, found: StepMetrics) -> str | None:
        """Describe what differs by more than rounding after another step; None if nothing does."""
        if (self._expected.is_bad & found.is_bad).item():
            return None  # Neither step changed anything.
        distances, tolerance = self._after.distances(), self._tolerance.overall
        keys = linear_in_gradient(distances)
        excused = max(tolerance, self._overall_noise(keys))
        values = {
            "loss": (relative(found.terms["loss"], self._expected.terms["loss"]), tolerance),
            "gradient norm": (relative(found.grad_norm, self._expected.grad_norm), excused),
            "gradient": (self._relative(distances, keys), excused),
        }
        for name, (value, most) in values.items():
            if not value.item() <= most:
                return f"the {name} differs by {value.item():.2g} of its size, more than {most:.2g}"
        return self._fault_of_a_tensor(distances, keys) if self._tolerance.by_tensor else None

    def _overall_noise(self, keys: Sequence[tuple[int, str]]) -> float:
        """How far noise may move the gradient of all tensors, relative to its norm."""
        if not self._tolerance.by_tensor:
            return 0.0
        noise = self._relative(self._noise, keys).item()
        return min(MAX_TIMES_TOTAL_NOISE * noise, MAX_OVERALL)

    def _relative(self, distances: Mapping[Any, Tensor], keys: Sequence[tuple[int, str]]) -> Tensor:
        """The norm of all changes relative to that of the gradient."""
        moved, size = (
            total_norm({key: norms[key] for key in keys}) for norms in (distances, self._sizes)
        )
        return moved / size

    def _fault_of_a_tensor(
        self, distances: Mapping[Any, Tensor], keys: Iterable[tuple[int, str]]
    ) -> str | None:
        for key in keys:
            noise, size = self._noise[key].item(), self._sizes[key].item()
            allowed = MAX_TIMES_NOISE * noise + MAX_FRACTION * size
            if not distances[key].item() <= allowed:
                return (
                    f"the gradient of parameter {key[0]} differs by {distances[key].item():.2g}, "
                    f"more than {allowed:.2g}; its size is {size:.2g}"
                )
        return None


def linear_in_gradient(distances: Mapping[Any, Tensor]) -> list[tuple[int, str]]:
    """The state of every parameter that is linear in its gradient: a moment, or the weight."""
    keys = [key for key in distances if isinstance(key, tuple)]
    with_moment = {key[0] for key in keys if key[1] in MOMENTS}
    return [
        key for key in keys if key[1] in MOMENTS or (key[1] == "" and key[0] not in with_moment)
    ]


@torch.no_grad()
def add_noise(before: StateBackup, size: float, seed: int) -> None:
    """Add noise relative to the saved weights; the same seed gives the same noise."""
    for key, value in before.find().items():
        if isinstance(key, tuple) and key[1] == "":
            generator = torch.Generator(value.device).manual_seed(NUM_NOISY_STEPS * key[0] + seed)
            noise = 2 * torch.rand(value.shape, generator=generator, device=value.device) - 1
            value.add_(size * noise * before.saved[key].to(value.device))


def relative(found: Tensor, expected: Tensor) -> Tensor:
    """The relative difference of a number from its expected value."""
    return (found - expected).abs() / expected.abs().clamp(min=1e-12)
