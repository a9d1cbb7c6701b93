"""Gaussian sensor noise and coarse dropout, which depend on the sample's draws alone.

For noise, a sample draws one seed, and each pixel hashes its index with that seed: any rank finds
the same noise on its device.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from manyhands.config.sections.transform_types import Range
from manyhands.data.augment.ranges import between, per_sample, pixel_grid, whole_between

NUM_SEEDS = 2**24
LOW_BITS = 2**32 - 1


@dataclass(frozen=True)
class GaussianNoise:
    """Independent noise in every value; `std` counts levels of 255."""

    num_uniforms: ClassVar[int] = 2

    std: Range

    def __call__(self, pictures: Tensor, uniforms: Tensor) -> Tensor:
        seeds = (uniforms[:, 1] * NUM_SEEDS).long()
        noise = normal_numbers(seeds, pictures[0].numel()).view_as(pictures)
        return (pictures + noise * per_sample(between(self.std, uniforms[:, 0]) / 255)).clamp(0, 1)


def normal_numbers(seeds: Tensor, count: int) -> Tensor:
    """Numbers (seeds, count) that look drawn from the standard normal distribution."""
    numbers = scrambled(torch.arange(count, device=seeds.device))
    bits = scrambled((numbers + scrambled(seeds).unsqueeze(1)) & LOW_BITS) >> 9
    # Odd multiples of 2**-23 lie evenly between -1 and 1 and never reach the ends.
    return torch.erfinv((2 * bits + 1 - 2**23).float() / 2**23) * 2**0.5


def scrambled(bits: Tensor) -> Tensor:
    """A hash of 32-bit numbers; the constants are those of a known mixer with little bias."""
    # Both factors have 31 bits, so that no product leaves the 63 bits of an integer.
    bits = ((bits ^ (bits >> 16)) * 0x21F0AAAD) & LOW_BITS
    bits = ((bits ^ (bits >> 15)) * 0x735A2D97) & LOW_BITS
    return bits ^ (bits >> 15)


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
        height, width = pictures.shape[-2:]
        columns, rows = pixel_grid(pictures)
        count = per_sample(whole_between((1, self.max_holes), uniforms[:, 0]))
        for number, hole in enumerate(uniforms[:, 1:].view(len(uniforms), -1, 4).unbind(1)):
            left, across, top, down = map(per_sample, hole.unbind(1))
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
