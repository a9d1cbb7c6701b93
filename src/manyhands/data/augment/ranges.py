"""Uniform random numbers of samples as values of ranges, shaped to broadcast over images.

Images in this package are (samples, frames, channels, height, width), floats from 0 to 1.
"""

import math

import torch
from torch import Tensor

from manyhands.config.sections.transform_types import Range


def between(ends: Range, uniform: Tensor) -> Tensor:
    """Values spread evenly over a range."""
    low, high = ends
    return low + (high - low) * uniform


def log_between(ends: Range, uniform: Tensor) -> Tensor:
    """Positive values whose logarithms are spread evenly: half as likely as twice."""
    low, high = ends
    return torch.exp(between((math.log(low), math.log(high)), uniform))


def whole_between(ends: tuple[int, int], uniform: Tensor) -> Tensor:
    """Integers of a range, each as likely as the others; still floats."""
    low, high = ends
    # Just below one, a uniform number times the count may round up to the count.
    return low + (uniform * (high + 1 - low)).floor().clamp(max=high - low)


def per_sample(values: Tensor) -> Tensor:
    """One value per sample, shaped to broadcast over images."""
    return values.view(-1, 1, 1, 1, 1)


def pixel_grid(pictures: Tensor) -> tuple[Tensor, Tensor]:
    """The column (1, 1, 1, 1, width) and the row (1, 1, 1, height, 1) of every pixel."""
    height, width = pictures.shape[-2:]
    columns = torch.arange(width, device=pictures.device, dtype=pictures.dtype)
    rows = torch.arange(height, device=pictures.device, dtype=pictures.dtype)
    return columns.view(1, 1, 1, 1, -1), rows.view(1, 1, 1, -1, 1)


def place_grid(pictures: Tensor) -> tuple[Tensor, Tensor]:
    """Every pixel's position as fractions of the width and height, from 0 to 1."""
    columns, rows = pixel_grid(pictures)
    height, width = pictures.shape[-2:]
    return (columns + 0.5) / width, (rows + 0.5) / height
