"""The exponential moving average of a network's weights.

Update n, counted from one, leaves `average = d * average + (1 - d) * weights`, where d depends on n
alone: a resumed run needs the average and nothing else. Every rank averages the weights it holds.
Buffers, and parameters that are not trained, have no average; theirs is the present value. An
update that left the weights as they were, because its gradients were not finite, leaves the average
as it was too.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
from torch import Tensor, nn

from manyhands.config.ema import EmaConfig
from manyhands.parallel.shards import held_part

Weights = Mapping[str, Callable[[], AbstractContextManager[None]]]
"""Which weights a network can have for a while, by the ending of what is named after them."""

LIVE: Weights = {"": nullcontext}
"""Those that are trained, and no others."""


class Ema:
    """Follows the weights of a network, and takes their place where asked."""

    def __init__(self, config: EmaConfig, network: nn.Module) -> None:
        self._config = config
        self._trained = [weight for weight in network.parameters() if weight.requires_grad]
        self._average = [weight.detach().clone() for weight in self._held()]
        # On the device, so that an update which is replayed there follows it.
        self._share = torch.zeros_like(self._average[0][:1].flatten()[0])

    @torch.no_grad()
    def _held(self) -> list[Tensor]:
        """The weights, or what this rank holds of them."""
        return [held_part(each) for each in self._trained]

    @property
    def weights(self) -> Weights:
        """The network as it is, and averaged."""
        return {**LIVE, "_ema": self.swapped_in}

    def prepare(self, step: int) -> None:
        """Know which update comes next, counted from one."""
        self._share.fill_(1 - decay_at(self._config, step))

    @torch.no_grad()
    def follow(self, is_sound: Tensor) -> None:
        """Take in the weights that an update left, if it was sound."""
        share = self._share * is_sound.to(self._share.device, self._share.dtype)
        # Written as a difference, so that weights which stay have themselves as their average.
        changes = torch._foreach_sub(self._held(), self._average)
        torch._foreach_mul_(changes, share)
        torch._foreach_add_(self._average, changes)

    @property
    def averages(self) -> list[Tensor]:
        """The average of every weight that is trained, or what this rank holds of it."""
        return self._average

    @torch.no_grad()
    def restart(self) -> None:
        """Begin anew from the weights as they are."""
        torch._foreach_copy_(self._average, self._held())

    @contextmanager
    def swapped_in(self) -> Iterator[None]:
        """Have the average in the network for a while; what is loaded then becomes the average."""
        self._exchange()
        try:
            yield
        finally:
            self._exchange()

    @torch.no_grad()
    def _exchange(self) -> None:
        # Values change places and tensors do not: whoever knows where weights lie stays right.
        held = self._held()
        aside = [torch.empty_like(weight) for weight in held]
        for target, source in ((aside, held), (held, self._average), (self._average, aside)):
            torch._foreach_copy_(target, source)


class NoEma:
    """Averages nothing."""

    weights: Weights = LIVE
    averages: Sequence[Tensor] = ()

    def prepare(self, step: int) -> None:
        """Know nothing."""

    def follow(self, is_sound: Tensor) -> None:
        """Take in nothing."""

    def restart(self) -> None:
        """Begin nothing."""


def ema_of(config: EmaConfig, network: nn.Module) -> Ema | NoEma:
    """The average that a config asks for."""
    return Ema(config, network) if config.enable else NoEma()


def decay_at(config: EmaConfig, step: int) -> float:
    """The share of the average that stays at an update, counted from one.

    The first update after `update_after_step` is still taken over as it is, as diffusers has it.
    """
    age = step - config.update_after_step - 1
    if age <= 0:
        return 0.0
    if config.decay is not None:
        return config.decay
    rising = 1 - math.pow(1 + age / config.inv_gamma, -config.power)
    return max(config.min_decay, min(config.max_decay, rising))
