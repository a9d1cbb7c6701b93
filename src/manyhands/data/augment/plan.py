"""Which transforms each sample gets, and in which order."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Generator, Tensor


@dataclass(frozen=True)
class Plan:
    """How many entries are chosen, by which weights, and how they follow each other."""

    weights: Sequence[float]
    num_chosen: int
    random_order: bool

    def places(self, num_samples: int, generator: Generator) -> Tensor:
        """Each entry's place (samples, entries) in a drawing by weight without replacement."""
        uniform = torch.rand(num_samples, len(self.weights), generator=generator)
        # Waiting times with rates in the proportion of the weights come in just that order.
        waits = -torch.log1p(-uniform) / torch.tensor(self.weights)
        return waits.argsort(dim=1, stable=True).argsort(dim=1).float()

    def rounds(self, places: Tensor) -> list[Tensor]:
        """Who gets which entry (samples, entries) in each pass through the entries as listed.

        In listed order one pass is enough. In random order a sample meets one entry per pass.
        """
        if self.random_order:
            return [places == number for number in range(self.num_chosen)]
        return [places < self.num_chosen]
