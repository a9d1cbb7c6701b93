"""The random numbers of our training, in the order in which LeRobot draws them."""

import torch
from torch import Tensor

from manyhands.draws.counter import CounterSource, derive_key
from manyhands.types import DrawSource, Network


def training_draws(network: Network, seed: int, step: int, num_samples: int) -> list[Tensor]:
    """All that a network draws in a step of one process."""
    log: list[Tensor] = []
    key = derive_key(seed, "draws", step)
    network.draw(LoggedSource(CounterSource(key, torch.arange(num_samples)), log))
    return log


class LoggedSource:
    """A source that appends what it draws to a log."""

    def __init__(self, source: DrawSource, log: list[Tensor]) -> None:
        self._source = source
        self._log = log

    @property
    def num_samples(self) -> int:
        """Samples to draw for."""
        return self._source.num_samples

    @property
    def common(self) -> "LoggedSource":
        """A source of one row, the same for all samples."""
        return LoggedSource(self._source.common, self._log)

    def normal(self, *shape: int) -> Tensor:
        """Standard normal numbers (samples, *shape)."""
        return self._logged(self._source.normal(*shape))

    def uniform(self, *shape: int) -> Tensor:
        """Numbers (samples, *shape) in [0, 1)."""
        return self._logged(self._source.uniform(*shape))

    def integers(self, high: int, *shape: int) -> Tensor:
        """Integers (samples, *shape) in [0, high)."""
        return self._logged(self._source.integers(high, *shape))

    def beta(self, alpha: float) -> Tensor:
        """Numbers (samples,) of the distribution Beta(alpha, 1)."""
        return self._logged(self._source.beta(alpha))

    def _logged(self, drawn: Tensor) -> Tensor:
        self._log.append(drawn.contiguous())
        return drawn
