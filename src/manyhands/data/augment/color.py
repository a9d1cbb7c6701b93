"""Color jitter, gamma and color temperature; formulas as in torchvision."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from manyhands.config.sections.transform_types import Range
from manyhands.data.augment.ranges import between, log_between, per_sample


@dataclass(frozen=True)
class ColorJitter:
    """Other brightness, contrast, saturation and hue, in this order; those that are not None."""

    num_uniforms: ClassVar[int] = 4

    brightness: Range | None = None
    contrast: Range | None = None
    saturation: Range | None = None
    hue: Range | None = None

    def __call__(self, pictures: Tensor, uniforms: Tensor) -> Tensor:
        steps: list[tuple[Callable[[Tensor, Tensor], Tensor], Range | None]] = [
            (brightened, self.brightness),
            (contrasted, self.contrast),
            (saturated, self.saturation),
            (hue_shifted, self.hue),
        ]
        for (adjusted, ends), uniform in zip(steps, uniforms.unbind(1), strict=True):
            if ends is not None:
                pictures = adjusted(pictures, between(ends, uniform))
        return pictures


@dataclass(frozen=True)
class GammaCorrection:
    """Another response curve; below one brightens, above one darkens."""

    num_uniforms: ClassVar[int] = 1

    gamma: Range

    def __call__(self, pictures: Tensor, uniforms: Tensor) -> Tensor:
        return pictures ** per_sample(log_between(self.gamma, uniforms[:, 0]))


def brightened(pictures: Tensor, factor: Tensor) -> Tensor:
    """All values times a factor per sample."""
    return (pictures * per_sample(factor)).clamp(0, 1)


def contrasted(pictures: Tensor, factor: Tensor) -> Tensor:
    """Values moved away from their frame's mean gray, or towards it below one."""
    return blended(gray(pictures).mean(dim=(-3, -2, -1), keepdim=True), pictures, factor)


def saturated(pictures: Tensor, factor: Tensor) -> Tensor:
    """Colors moved away from their own gray, or towards it below one."""
    return blended(gray(pictures), pictures, factor)


def blended(other: Tensor, pictures: Tensor, factor: Tensor) -> Tensor:
    """On the line from others at 0 to the images at 1, and beyond."""
    return torch.lerp(other.expand_as(pictures), pictures, per_sample(factor)).clamp(0, 1)


def gray(pictures: Tensor) -> Tensor:
    """How bright each color looks: one channel."""
    red, green, blue = pictures.unbind(-3)
    return (0.299 * red + 0.587 * green + 0.114 * blue).unsqueeze(-3)


def hue_shifted(pictures: Tensor, turn: Tensor) -> Tensor:
    """Hue shifted by fractions of a full turn of the color circle."""
    value, lowest = pictures.amax(-3, keepdim=True), pictures.amin(-3, keepdim=True)
    chroma = value - lowest
    hue = _hue(pictures, value, chroma) + 6 * per_sample(turn)
    channels = []
    for start in (5.0, 3.0, 1.0):
        sixth = torch.remainder(hue + start, 6)
        channels.append(value - chroma * torch.minimum(sixth, 4 - sixth).clamp(0, 1))
    return torch.cat(channels, dim=-3)


def _hue(pictures: Tensor, value: Tensor, chroma: Tensor) -> Tensor:
    """Sixths of the color circle from red on; gray counts as red."""
    red, green, blue = pictures.chunk(3, dim=-3)
    # A gray pixel has no chroma to divide by, and its differences are zero anyway.
    span = torch.where(chroma == 0, 1, chroma)
    from_red, from_green, from_blue = green - blue, blue - red, red - green
    hue = torch.where(value == green, from_green / span + 2, from_blue / span + 4)
    return torch.where(value == red, from_red / span, hue)


NEUTRAL_K = 6500.0  # Color temperature at which images are unchanged
DISPLAY_GAMMA = 2.2  # Gamma: stored values are about this root of the light
LINEAR_RGB = ((3.2406, -1.5372, -0.4986), (-0.9689, 1.8758, 0.0415), (0.0557, -0.2040, 1.0570))
"""Red, green and blue light of sRGB from CIE XYZ."""


@dataclass(frozen=True)
class PlanckianJitter:
    """Light of another color temperature, in kelvin; green is unchanged."""

    num_uniforms: ClassVar[int] = 1

    temperature: Range

    def __call__(self, pictures: Tensor, uniforms: Tensor) -> Tensor:
        return apply_temperature(pictures, between(self.temperature, uniforms[:, 0]))


def apply_temperature(pictures: Tensor, temperature: Tensor) -> Tensor:
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
