"""Color jitter and gamma; formulas as in torchvision."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from manyhands.config.transform_types import Range
from manyhands.data.augment.ranges import between, log_between, spread


@dataclass(frozen=True)
class ColorJitter:
    """Other brightness, contrast, saturation and hue, in this order; those that are not None."""

    num_uniforms: ClassVar[int] = 4

    brightness: Range | None = None
    contrast: Range | None = None
    saturation: Range | None = None
    hue: Range | None = None

    def __call__(self, pictures: Tensor, uniforms: Tensor) -> Tensor:
        """The images with their samples' draws."""
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
        """The images with their samples' draws."""
        return pictures ** spread(log_between(self.gamma, uniforms[:, 0]))


def brightened(pictures: Tensor, factor: Tensor) -> Tensor:
    """All values times a factor per sample."""
    return (pictures * spread(factor)).clamp(0, 1)


def contrasted(pictures: Tensor, factor: Tensor) -> Tensor:
    """Values moved away from their frame's mean gray, or towards it below one."""
    return blended(gray(pictures).mean(dim=(-3, -2, -1), keepdim=True), pictures, factor)


def saturated(pictures: Tensor, factor: Tensor) -> Tensor:
    """Colors moved away from their own gray, or towards it below one."""
    return blended(gray(pictures), pictures, factor)


def blended(other: Tensor, pictures: Tensor, factor: Tensor) -> Tensor:
    """On the line from others at 0 to the images at 1, and beyond."""
    return torch.lerp(other.expand_as(pictures), pictures, spread(factor)).clamp(0, 1)


def gray(pictures: Tensor) -> Tensor:
    """How bright each color looks: one channel."""
    red, green, blue = pictures.unbind(-3)
    return (0.299 * red + 0.587 * green + 0.114 * blue).unsqueeze(-3)


def hue_shifted(pictures: Tensor, turn: Tensor) -> Tensor:
    """Hue shifted by fractions of a full turn of the color circle."""
    value, lowest = pictures.amax(-3, keepdim=True), pictures.amin(-3, keepdim=True)
    chroma = value - lowest
    hue = _hue(pictures, value, chroma) + 6 * spread(turn)
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
