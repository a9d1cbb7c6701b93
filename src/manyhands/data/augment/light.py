"""Uneven light: bright and dark patches, and shadows of objects outside the image."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from manyhands.config.sections.transform_types import Range
from manyhands.data.augment.ranges import between, per_sample, place_grid, whole_between

BAND_WIDTHS: Range = (0.2, 0.6)  # Smallest and largest width of a shadow, as a share of the image's
EDGE = 0.06  # Width over which a shadow fades out, as a fraction of the image's


@dataclass(frozen=True)
class GaussianPatchBrightness:
    """Some soft round patches brighter or darker; sigmas are fractions of the image's sides."""

    num_patches: tuple[int, int]
    sigma_range: Range
    factor_range: Range

    @property
    def num_uniforms(self) -> int:
        """One for how many, then four for each patch that there may be."""
        return 1 + 4 * self.num_patches[1]

    def __call__(self, pictures: Tensor, uniforms: Tensor) -> Tensor:
        columns, rows = place_grid(pictures)
        count = whole_between(self.num_patches, uniforms[:, 0])
        for number, patch in enumerate(uniforms[:, 1:].view(len(uniforms), -1, 4).unbind(1)):
            across, down, size, strength = map(per_sample, patch.unbind(1))
            squared = (columns - across) ** 2 + (rows - down) ** 2
            bell = torch.exp(-0.5 * squared / between(self.sigma_range, size) ** 2)
            gain = 1 + (between(self.factor_range, strength) - 1) * bell
            pictures = pictures * torch.where(per_sample(count) > number, gain, 1)
        return pictures.clamp(0, 1)


@dataclass(frozen=True)
class RandomShadow:
    """A band of any direction with soft edges, as often brighter as darker."""

    num_uniforms: ClassVar[int] = 5

    opacity: Range

    def __call__(self, pictures: Tensor, uniforms: Tensor) -> Tensor:
        opacity, side, angle, offset, width = map(per_sample, uniforms.unbind(1))
        columns, rows = place_grid(pictures)
        across = (columns - 0.5) * (math.pi * angle).cos() + (rows - 0.5) * (math.pi * angle).sin()
        # The middle of the band is always in the image.
        distance = (across - between((-0.4, 0.4), offset)).abs()
        cover = ((between(BAND_WIDTHS, width) / 2 - distance) / EDGE + 0.5).clamp(0, 1)
        change = torch.where(side < 0.5, -1, 1) * between(self.opacity, opacity)
        return (pictures * (1 + change * cover)).clamp(0, 1)
