"""Which transforms each sample gets, and in which order."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from manyhands.types import DrawSource


@dataclass(frozen=True)
class Plan:
    """How many entries are chosen, by which weights, and how they follow each other."""

    weights: Sequence[float]
    num_chosen: int
    random_order: bool

    def places(self, source: DrawSource) -> Tensor:
        """Each entry's place (samples, entries) in a drawing by weight without replacement."""
        # Exponential waiting times with the weights as rates come in just that order. The squared
        # length of a normal pair is such a time; unlike a logarithm it has the same bits anywhere.
        squares = source.normal(len(self.weights), 2).square()
        means = mean_waits(tuple(self.weights), squares.device)
        waits = (squares[..., 0] + squares[..., 1]) * means
        return waits.argsort(dim=1, stable=True).argsort(dim=1).float()

    def rounds(self, places: Tensor) -> list[Tensor]:
        """Who gets which entry (samples, entries) in each pass through the entries as listed.

        In listed order one pass is enough. In random order a sample gets one entry per pass.
        """
        if self.random_order:
            return [places == number for number in range(self.num_chosen)]
        return [places < self.num_chosen]


@lru_cache
def mean_waits(weights: tuple[float, ...], device: torch.device) -> Tensor:
    """Inverse weights; they stay on their device, since a CUDA graph cannot copy from the host."""
    return torch.tensor([1 / weight for weight in weights], device=device)
