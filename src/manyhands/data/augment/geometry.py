"""Affine transforms: rotate, translate, scale and shear images about their center."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from manyhands.config.sections.transform_types import Range
from manyhands.data.augment.ranges import between, pixel_grid


@dataclass(frozen=True)
class RandomAffine:
    """Rotated clockwise, translated by integer pixels, scaled and sheared."""

    num_uniforms: ClassVar[int] = 6

    degrees: Range
    translate: Range  # Largest fractions of the width and of the height
    scale: Range
    shear: tuple[float, float, float, float]  # Smallest and largest angle along x, then along y
    interpolation: str
    fill: float

    def __call__(self, pictures: Tensor, uniforms: Tensor) -> Tensor:
        height, width = pictures.shape[-2:]
        angle, right, down, scale, shear_x, shear_y = uniforms.unbind(1)
        columns, rows = inverse_map(
            torch.deg2rad(between(self.degrees, angle)),
            between(self.scale, scale),
            torch.deg2rad(between(self.shear[:2], shear_x)),
            torch.deg2rad(between(self.shear[2:], shear_y)),
        )
        move_x = between((-self.translate[0] * width, self.translate[0] * width), right).round()
        move_y = between((-self.translate[1] * height, self.translate[1] * height), down).round()
        grid = source_grid(pictures, (columns, rows), (move_x, move_y))
        return resampled(pictures, grid, self.interpolation, self.fill)


Row = tuple[Tensor, Tensor]  # Two coefficients per sample


def inverse_map(angle: Tensor, scale: Tensor, shear_x: Tensor, shear_y: Tensor) -> tuple[Row, Row]:
    """From a place in the result to its source, both from the center; angles in radians."""
    # The way there shears along x, then along y, turns, and scales.
    cos, sin = angle.cos() / scale, angle.sin() / scale
    tan_x, tan_y = shear_x.tan(), shear_y.tan()
    # Matrix products may be rounded to few bits on a GPU: these four are written out.
    down = (tan_y * cos - sin, tan_y * sin + cos)
    across = (cos + tan_x * down[0], sin + tan_x * down[1])
    return across, down


def source_grid(pictures: Tensor, rows: tuple[Row, Row], move: Row) -> Tensor:
    """Sampling grid (samples, height, width, 2), in torch's units."""
    height, width = pictures.shape[-2:]
    columns_at, rows_at = pixel_grid(pictures)
    x = columns_at.view(1, 1, -1) - (width - 1) / 2 - move[0].view(-1, 1, 1)
    y = rows_at.view(1, -1, 1) - (height - 1) / 2 - move[1].view(-1, 1, 1)
    (xx, xy), (yx, yy) = ((each.view(-1, 1, 1) for each in row) for row in rows)
    return torch.stack([(xx * x + xy * y) * (2 / width), (yx * x + yy * y) * (2 / height)], dim=-1)


def resampled(pictures: Tensor, grid: Tensor, interpolation: str, fill: float) -> Tensor:
    """The images sampled on the grid, `fill` outside of them."""
    planes = pictures.flatten(1, 2) - fill
    found = F.grid_sample(planes, grid, interpolation, padding_mode="zeros", align_corners=False)
    return (found + fill).view_as(pictures).clamp(0, 1)
