"""Defocus blur, motion blur and sharpness."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from manyhands.config.sections.transform_types import Range
from manyhands.data.augment.color import blended
from manyhands.data.augment.ranges import between, whole_between


@dataclass(frozen=True)
class SharpnessJitter:
    """Softer below one, sharper above."""

    num_uniforms: ClassVar[int] = 1

    sharpness: Range

    def __call__(self, pictures: Tensor, uniforms: Tensor) -> Tensor:
        return blended(smoothed(pictures), pictures, between(self.sharpness, uniforms[:, 0]))


@dataclass(frozen=True)
class GaussianBlur:
    """Out of focus; sigma in pixels, the kernel's width and height bound its reach."""

    num_uniforms: ClassVar[int] = 1

    kernel_size: tuple[int, int]
    sigma: Range

    def __call__(self, pictures: Tensor, uniforms: Tensor) -> Tensor:
        sigma, (width, height) = between(self.sigma, uniforms[:, 0]), self.kernel_size
        across = convolved(pictures, gaussian_taps(sigma, width)[:, None, :])
        return convolved(across, gaussian_taps(sigma, height)[:, :, None]).clamp(0, 1)


@dataclass(frozen=True)
class MotionBlur:
    """Smeared along a line of any direction, as long as the kernel."""

    num_uniforms: ClassVar[int] = 2

    kernel_size: tuple[int, int]  # Smallest and largest size, both odd

    def __call__(self, pictures: Tensor, uniforms: Tensor) -> Tensor:
        least, largest = self.kernel_size
        reach = whole_between((least // 2, largest // 2), uniforms[:, 0])
        lines = line_kernels(reach, math.pi * uniforms[:, 1], largest // 2)
        return convolved(pictures, lines).clamp(0, 1)


def smoothed(pictures: Tensor) -> Tensor:
    """Every pixel with its eight neighbors, itself five times; the border is unchanged."""
    soft = pictures.clone()
    if min(pictures.shape[-2:]) > 2:
        boxes = 9 * F.avg_pool2d(pictures.flatten(1, 2), 3, stride=1)
        inner = pictures[..., 1:-1, 1:-1]
        soft[..., 1:-1, 1:-1] = (boxes.view_as(inner) + 4 * inner) / 13
    return soft


def convolved(pictures: Tensor, kernels: Tensor) -> Tensor:
    """Each sample with its own kernel (samples, rows, columns); border pixels are repeated."""
    rows, columns = kernels.shape[1:]
    # Samples become the channels of a depth-wise convolution, frames and colors its batch.
    planes = pictures.flatten(1, 2).transpose(0, 1)
    borders = (columns // 2, columns // 2, rows // 2, rows // 2)
    padded = F.pad(planes, borders, mode="replicate")
    result = F.conv2d(padded, kernels.unsqueeze(1), groups=len(kernels))
    return result.transpose(0, 1).reshape(pictures.shape)


def gaussian_taps(sigma: Tensor, size: int) -> Tensor:
    """Weights (samples, size) of a bell curve that sum to one."""
    offsets = torch.arange(size, device=sigma.device, dtype=sigma.dtype) - size // 2
    return torch.softmax(-0.5 * (offsets / sigma[:, None]) ** 2, dim=1)


def line_kernels(reach: Tensor, angle: Tensor, largest_reach: int) -> Tensor:
    """Lines (samples, rows, columns) of equal weights, that many pixels to both sides."""
    steps = torch.arange(-largest_reach, largest_reach + 1, device=reach.device, dtype=reach.dtype)
    points = steps.view(1, -1, 1)
    # A point between pixels weighs on both, the nearer one more.
    across = (1 - (steps - points * angle.cos().view(-1, 1, 1)).abs()).clamp(min=0)
    down = (1 - (steps - points * angle.sin().view(-1, 1, 1)).abs()).clamp(min=0)
    on_line = (steps.abs() <= reach[:, None]).to(reach.dtype) / (2 * reach[:, None] + 1)
    return (on_line[:, :, None, None] * down[:, :, :, None] * across[:, :, None, :]).sum(1)
