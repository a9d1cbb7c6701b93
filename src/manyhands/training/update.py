"""One update as the device sees it: tensors in, measures out, and nothing read on the way."""

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor

TensorsByName = dict[str, Tensor]


class Inputs(NamedTuple):
    """All that differs from one update to the next, but learning rates and seeds."""

    batch: TensorsByName
    """Raw values of this rank's samples."""
    keys: TensorsByName
    """Key of every stream of random draws."""

    def mapped(self, change: Callable[[Tensor], Tensor]) -> "Inputs":
        """The inputs with every tensor changed."""
        return Inputs(
            *({name: change(value) for name, value in group.items()} for group in self.groups)
        )

    @property
    def groups(self) -> tuple[TensorsByName, ...]:
        """The inputs by what they are for."""
        return self.batch, self.keys


class Measures(NamedTuple):
    """What an update measured, still on the device."""

    terms: TensorsByName
    """This rank's parts of the loss and its terms; summed over ranks they are the global means."""
    grad_norm: Tensor
    is_bad: Tensor
    """Whether this rank found the loss or the gradients not finite; nothing was changed then."""


Compute = Callable[[Inputs], Measures]
"""Makes an update."""
