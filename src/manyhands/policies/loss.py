"""Combine a network's loss terms into one loss."""

from collections.abc import Mapping

import torch
from torch import Tensor

from manyhands.types import LossTerms


def loss_of(terms: LossTerms, counts: Mapping[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
    """The weighted sum of the terms' means, and the means.

    With the counts of a larger batch, the results are a micro-batch's contributions to its means.
    """
    means = {name: term.total / counts[name].clamp(min=1) for name, term in terms.items()}
    loss = torch.stack([terms[name].weight * mean for name, mean in means.items()]).sum()
    return loss, {name: mean.detach() for name, mean in means.items()}
