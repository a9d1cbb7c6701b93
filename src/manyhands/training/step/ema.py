"""The exponential moving average of a network's weights.

Step n, counted from one, sets `average = d * average + (1 - d) * weights`, where d depends on n
alone: a resumed run needs only the average. Every rank averages the weights it holds. Buffers and
frozen parameters are not averaged. A step that is skipped because of non-finite gradients does not
change the average either.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
from torch import Tensor, nn

from manyhands.config.sections.optim import EmaConfig
from manyhands.parallel.sharded_tensors import local_tensor

Weights = Mapping[str, Callable[[], AbstractContextManager[None]]]
"""Context managers that swap weights into a network, by the suffix of their names."""

LIVE: Weights = {"": nullcontext}
"""The live weights only."""


class Ema:
    """Averages the weights of a network, and can replace them temporarily."""

    def __init__(self, config: EmaConfig, network: nn.Module) -> None:
        self._config = config
        self._trained = [weight for weight in network.parameters() if weight.requires_grad]
        self._average = [weight.detach().clone() for weight in self._held()]
        self._by_weight: dict[Tensor, Tensor] = dict(zip(self._trained, self._average, strict=True))
        self.share = self._average[0].new_zeros(())
        """1 - decay of the next step; on the device, where graph replays read it."""

    @torch.no_grad()
    def _held(self) -> list[Tensor]:
        """The weights, or the shards of this rank."""
        return [local_tensor(each) for each in self._trained]

    @property
    def weights(self) -> Weights:
        """The live weights and the averaged weights."""
        return {**LIVE, "_ema": self.applied}

    def prepare(self, step: int) -> None:
        """Set the decay of the next step, counted from one."""
        self.share.fill_(1 - self._config.decay_at(step))

    @torch.no_grad()
    def follow(self, is_sound: Tensor) -> None:
        """Update the average after a step, if the step was finite."""
        share = self.share * is_sound.to(self.share.device, self.share.dtype)
        # As a difference, so that the average of constant weights stays exact.
        changes = torch._foreach_sub(self._held(), self._average)
        torch._foreach_mul_(changes, share)
        torch._foreach_add_(self._average, changes)

    def average_of(self, weight: Tensor) -> Tensor:
        """The average of a trained weight, or the shard of this rank."""
        return self._by_weight[weight]

    @property
    def averages(self) -> list[Tensor]:
        """The average of every trained weight, or the shard of this rank."""
        return self._average

    @torch.no_grad()
    def restart(self) -> None:
        """Reset the average to the current weights."""
        torch._foreach_copy_(self._average, self._held())

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Swap the average into the network; weights loaded inside become the average."""
        self._exchange()
        try:
            yield
        finally:
            self._exchange()

    @torch.no_grad()
    def _exchange(self) -> None:
        # Swaps values, not tensors: pointers to weights stay valid.
        held = self._held()
        aside = [torch.empty_like(weight) for weight in held]
        for target, source in ((aside, held), (held, self._average), (self._average, aside)):
            torch._foreach_copy_(target, source)


class NoEma:
    """No EMA."""

    weights: Weights = LIVE
    averages: Sequence[Tensor] = ()
    share: None = None

    def average_of(self, weight: Tensor) -> Tensor:
        """The weight itself."""
        return weight

    def prepare(self, step: int) -> None:
        """Do nothing."""

    def follow(self, is_sound: Tensor) -> None:
        """Do nothing."""

    def restart(self) -> None:
        """Do nothing."""


def build_ema(config: EmaConfig, network: nn.Module) -> Ema | NoEma:
    """Build the EMA of a config."""
    return Ema(config, network) if config.enable else NoEma()
