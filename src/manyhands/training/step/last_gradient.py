"""The gradient that a backward pass computes last: from there on, DDP only communicates."""

from collections.abc import Callable, Iterable
from typing import Any

from torch import Tensor, nn


class LastGradient:
    """Calls back when a backward pass has computed its last gradient.

    The first pass shows which gradient that is; all later passes have a single hook.
    """

    def __init__(self, weights: Iterable[nn.Parameter], on_last: Callable[[], None]) -> None:
        self._on_last = on_last
        self._last: Any = None
        # Torch does not type the method that registers hooks.
        trained: list[Any] = [weight for weight in weights if weight.requires_grad]
        self._hooks = [each.register_post_accumulate_grad_hook(self._note) for each in trained]

    def settle(self) -> None:
        """Keep only the hook of the gradient that came last in the pass before."""
        for hook in self._hooks:
            hook.remove()
        if self._last is not None:
            self._last.register_post_accumulate_grad_hook(lambda _: self._on_last())
        self._hooks, self._last = [], None

    def _note(self, weight: Tensor) -> None:
        self._last = weight
