"""Batch norm over the images of all ranks, as if one process had them.

Ranks all-gather the moments of their images in the forward pass, and all-reduce two sums in the
backward pass: the gradient of an image depends on all others. A rank may have any number, none
included. On a GPU the kernels are those of PyTorch's SyncBatchNorm, which cannot be used
itself: it is for GPUs only, and synchronizes with them.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from manyhands.parallel.collectives import all_gather_rows, all_reduce_sum

EPS = 1e-5
MOMENTUM = 0.1

_ALL_BUT_CHANNELS = (0, 2, 3)
# A rank without images weighs next to nothing; the kernels divide by sums of weights.
_NOTHING = 1e-20


class Moments(NamedTuple):
    """Of the values in each channel: how many each rank has, the mean and the inverse deviation."""

    counts: Tensor
    mean: Tensor
    scale: Tensor


def global_batch_norm(
    image: Tensor, running_mean: Tensor, running_var: Tensor, weight: Tensor, bias: Tensor
) -> Tensor:
    """Collective. Batch norm of the image in training; updates the running moments."""
    moments = _global_moments(image.detach(), running_mean, running_var)
    normalize: Callable[..., Tensor] = _Normalize.apply
    return normalize(image, weight, bias, moments)


class _Normalize(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, image: Tensor, weight: Tensor, bias: Tensor, moments: Moments) -> Tensor:
        ctx.save_for_backward(image, weight, *moments)
        _, mean, scale = moments
        if _has_kernels(image):
            return torch.batch_norm_elemt(image, weight, bias, mean, scale, EPS)
        return F.batch_norm(image, mean, scale**-2 - EPS, weight, bias, eps=EPS)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        image, weight, *rest = ctx.saved_tensors
        gradients = _gradients_by_kernels if _has_kernels(image) else _gradients
        return *gradients(gradient, image, weight, Moments(*rest)), None


def _has_kernels(image: Tensor) -> bool:
    return image.is_cuda and image.numel() > 0


def _global_moments(image: Tensor, running_mean: Tensor, running_var: Tensor) -> Moments:
    """Collective. Moments over all ranks; updates the running ones."""
    num_channels = image.shape[1]
    mean, scale = _own_moments(image, running_mean.dtype)
    count = mean.new_full((1,), max(image.numel() // num_channels, _NOTHING))
    rows = all_gather_rows(torch.cat([count, mean, scale]))
    every, means, scales = torch.split(rows, [1, num_channels, num_channels], dim=1)
    counts = every.flatten()
    if image.is_cuda:
        mean, scale = torch.batch_norm_gather_stats_with_counts(
            image, means, scales, running_mean, running_var, MOMENTUM, EPS, counts
        )
        return Moments(counts, mean, scale)

    # Deviations are from each rank's own mean: large numbers are not subtracted from each other.
    shares = every / every.sum()
    mean = (shares * means).sum(dim=0)
    var = (shares * (scales**-2 - EPS + (means - mean).square())).sum(dim=0)
    running_mean.lerp_(mean, MOMENTUM)
    running_var.lerp_(var * counts.sum() / (counts.sum() - 1).clamp(min=1), MOMENTUM)
    return Moments(counts, mean, torch.rsqrt(var + EPS))


def _own_moments(image: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    if _has_kernels(image):
        return torch.batch_norm_stats(image, EPS)
    if len(image) == 0:
        zeros = image.new_zeros(image.shape[1], dtype=dtype)
        return zeros, zeros + 1
    var, mean = torch.var_mean(image.to(dtype), _ALL_BUT_CHANNELS, correction=0)
    return mean, torch.rsqrt(var + EPS)


def _gradients(
    gradient: Tensor, image: Tensor, weight: Tensor, moments: Moments
) -> tuple[Tensor, Tensor, Tensor]:
    """Collective. Gradients of image, weight and bias."""
    counts, mean, scale = moments
    outer = gradient.to(mean.dtype)
    normal = F.batch_norm(image.to(mean.dtype), mean, scale**-2 - EPS, eps=EPS)
    sums = torch.stack([outer.sum(_ALL_BUT_CHANNELS), (outer * normal).sum(_ALL_BUT_CHANNELS)])
    by_mean, by_var = (all_reduce_sum(sums) / counts.sum())[:, :, None, None]
    inner = (weight * scale)[:, None, None] * (outer - by_mean - normal * by_var)
    return inner.to(image.dtype), sums[1], sums[0]


def _gradients_by_kernels(
    gradient: Tensor, image: Tensor, weight: Tensor, moments: Moments
) -> tuple[Tensor, Tensor, Tensor]:
    """Collective. The same on a GPU."""
    counts, mean, scale = moments
    # Both must have the same memory layout.
    gradient, image = (
        each.contiguous(memory_format=torch.channels_last) for each in (gradient, image)
    )
    *local, of_weight, of_bias = torch.batch_norm_backward_reduce(
        gradient, image, mean, scale, weight, True, True, True
    )
    outer, outer_by_deviation = all_reduce_sum(torch.stack(local))
    inner = torch.batch_norm_backward_elemt(
        gradient, image, mean, scale, weight, outer, outer_by_deviation, counts.to(torch.int32)
    )
    return inner, of_weight, of_bias
