"""Rectangles of one color that occlude the scene."""

from dataclasses import dataclass

import torch
from torch import Tensor

from manyhands.data.augment.ranges import pixel_grid, spread, whole_between


@dataclass(frozen=True)
class CoarseDropout:
    """One to `max_holes` rectangles up to a fraction of the image's height and width."""

    max_holes: int
    max_height_frac: float
    max_width_frac: float
    fill_value: float

    @property
    def num_uniforms(self) -> int:
        """One for how many, then four for each hole that there may be."""
        return 1 + 4 * self.max_holes

    def __call__(self, pictures: Tensor, uniforms: Tensor) -> Tensor:
        """The images with their samples' draws."""
        height, width = pictures.shape[-2:]
        columns, rows = pixel_grid(pictures)
        count = spread(whole_between((1, self.max_holes), uniforms[:, 0]))
        for number, hole in enumerate(uniforms[:, 1:].view(len(uniforms), -1, 4).unbind(1)):
            left, across, top, down = map(spread, hole.unbind(1))
            in_columns = covered(columns, width, self.max_width_frac * across, left)
            in_rows = covered(rows, height, self.max_height_frac * down, top)
            is_hole = in_columns & in_rows & (count > number)
            pictures = torch.where(is_hole, self.fill_value, pictures)
        return pictures


def covered(pixels: Tensor, size: int, part: Tensor, start: Tensor) -> Tensor:
    """Pixels that an interval covers along a side: at least one, and all inside."""
    length = (part * size).ceil().clamp(min=1)
    first = (start * (size - length + 1)).floor()
    return (pixels >= first) & (pixels < first + length)
