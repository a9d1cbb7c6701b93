"""The color of the light: white at one temperature, orange below it and blue above."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from manyhands.config.transform_types import Range
from manyhands.data.augment.ranges import between

NEUTRAL_K = 6500.0
"""Color temperature at which images are unchanged."""
DISPLAY_GAMMA = 2.2
"""Gamma: stored values are about this root of the light."""
LINEAR_RGB = ((3.2406, -1.5372, -0.4986), (-0.9689, 1.8758, 0.0415), (0.0557, -0.2040, 1.0570))
"""Red, green and blue light of sRGB from CIE XYZ."""


@dataclass(frozen=True)
class PlanckianJitter:
    """Light of another color temperature, in kelvin; green is unchanged."""

    num_uniforms: ClassVar[int] = 1

    temperature: Range

    def __call__(self, pictures: Tensor, uniforms: Tensor) -> Tensor:
        """The images with their samples' draws."""
        return lit(pictures, between(self.temperature, uniforms[:, 0]))


def lit(pictures: Tensor, temperature: Tensor) -> Tensor:
    """The images as a black body of that temperature lights them."""
    gains = channel_gains(temperature) / channel_gains(torch.full_like(temperature, NEUTRAL_K))
    return (pictures * gains.view(-1, 1, 3, 1, 1)).clamp(0, 1)


def channel_gains(temperature: Tensor) -> Tensor:
    """Red, green and blue (samples, 3) of a black body as stored values, green at one."""
    x, y = chromaticity(temperature)
    light = torch.stack(
        [(a * x + b * y + c * (1 - x - y)) / y for a, b, c in LINEAR_RGB], dim=1
    ).clamp(min=0)
    return (light / light[:, 1:2]) ** (1 / DISPLAY_GAMMA)


def chromaticity(temperature: Tensor) -> tuple[Tensor, Tensor]:
    """Where a black body lies in the CIE 1931 diagram: Kim's cubic fit for 2222 to 25000 K."""
    inverse = 1000 / temperature
    cool = ((-0.2661239 * inverse - 0.2343589) * inverse + 0.8776956) * inverse + 0.179910
    hot = ((-3.0258469 * inverse + 2.1070379) * inverse + 0.2226347) * inverse + 0.240390
    x = torch.where(temperature < 4000, cool, hot)
    low = ((-0.9549476 * x - 1.37418593) * x + 2.09137015) * x - 0.16748867
    high = ((3.0817580 * x - 5.87338670) * x + 3.75112997) * x - 0.37001483
    return x, torch.where(temperature < 4000, low, high)
