"""Inputs and outputs of one training step on the device, without synchronization."""

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor

TensorsByName = dict[str, Tensor]


class StepInputs(NamedTuple):
    """All that differs between two steps, except learning rates and seeds."""

    batch: TensorsByName
    """Raw values of this rank's samples."""
    keys: TensorsByName
    """Key of every stream of random draws."""

    def mapped(self, change: Callable[[Tensor], Tensor]) -> "StepInputs":
        """The inputs with every tensor changed."""
        return StepInputs(
            *({name: change(value) for name, value in group.items()} for group in self.groups)
        )

    @property
    def groups(self) -> tuple[TensorsByName, ...]:
        """The inputs by purpose."""
        return self.batch, self.keys


class StepMetrics(NamedTuple):
    """The measures of a step, still on the device."""

    terms: TensorsByName
    """Loss and terms of this rank; their sums over ranks are the global means."""
    grad_norm: Tensor
    is_bad: Tensor
    """Whether loss or gradients are non-finite on this rank; the step then changed nothing."""


StepFunction = Callable[[StepInputs], StepMetrics]
"""Runs a step."""
