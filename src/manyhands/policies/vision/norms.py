"""Norms of convolutional networks: frozen, over the batch of all ranks, over groups of channels.

All hold their tensors under the names that PyTorch and torchvision give them.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyhands.parallel.collectives import num_ranks
from manyhands.policies.vision.global_norm import EPS, MOMENTUM, global_batch_norm

NormMaker = Callable[[int], nn.Module]  # Makes the norm of so many channels.

_CHANNELS_PER_GROUP = 16


class FrozenBatchNorm(nn.Module):
    """Batch norm with fixed statistics and a fixed affine map: four buffers, nothing to train."""

    weight: Tensor
    bias: Tensor
    running_mean: Tensor
    running_var: Tensor

    def __init__(self, num_channels: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.ones(num_channels))
        self.register_buffer("bias", torch.zeros(num_channels))
        self.register_buffer("running_mean", torch.zeros(num_channels))
        self.register_buffer("running_var", torch.ones(num_channels))

    def scale_and_shift(self) -> tuple[Tensor, Tensor]:
        """The equivalent affine map per channel."""
        scale = self.weight * torch.rsqrt(self.running_var + EPS)
        return scale, self.bias - self.running_mean * scale


class BatchNorm(nn.Module):
    """Batch norm over the global batch, so that the number of ranks does not change a run."""

    running_mean: Tensor
    running_var: Tensor
    num_batches_tracked: Tensor

    def __init__(self, num_channels: int) -> None:
        super().__init__()
        self.is_repeating = False
        self.weight = nn.Parameter(torch.ones(num_channels))
        self.bias = nn.Parameter(torch.zeros(num_channels))
        self.register_buffer("running_mean", torch.zeros(num_channels))
        self.register_buffer("running_var", torch.ones(num_channels))
        self.register_buffer("num_batches_tracked", torch.tensor(0, dtype=torch.long))

    def forward(self, image: Tensor) -> Tensor:
        """Collective in training. The image with every channel at its own mean and scale."""
        mean, var = self.running_mean, self.running_var
        if not self.training:
            return F.batch_norm(image, mean, var, self.weight, self.bias, eps=EPS)
        if self.is_repeating:
            mean, var = mean.clone(), var.clone()
        else:
            self.num_batches_tracked.add_(1)
        if num_ranks() > 1:
            return global_batch_norm(image, mean, var, self.weight, self.bias)
        return F.batch_norm(image, mean, var, self.weight, self.bias, True, MOMENTUM, EPS)


def group_norm(num_channels: int) -> nn.GroupNorm:
    """Group norm with sixteen channels to a group."""
    return nn.GroupNorm(num_channels // _CHANNELS_PER_GROUP, num_channels, eps=EPS)


@contextmanager
def recomputing(module: nn.Module) -> Iterator[None]:
    """Run passes that repeat earlier ones: batch norms do not count their batch again."""
    norms = [part for part in module.modules() if isinstance(part, BatchNorm)]
    for norm in norms:
        norm.is_repeating = True
    try:
        yield
    finally:
        for norm in norms:
            norm.is_repeating = False
