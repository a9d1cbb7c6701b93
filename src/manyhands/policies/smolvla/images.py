"""Prepare the images of all cameras for the image encoder: one size, values from -1 to 1."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from manyhands.config.policy import visual_features
from manyhands.config.smolvla import SmolVLAConfig
from manyhands.errors import UserError
from manyhands.types import Batch

PADDING_MASK = "_padding_mask"
"""Suffix of the key that marks the samples with an image of a camera."""


class Pictures(NamedTuple):
    """Images of all cameras."""

    pixels: Tensor
    """(cameras, samples, 3, height, width), from -1 to 1."""
    are_there: Tensor
    """(cameras, samples), whether there is an image."""


def pictures_of(observation: Batch, config: SmolVLAConfig) -> Pictures:
    """The images of the present cameras, and empty ones for missing cameras."""
    cameras = visual_features(config)
    present = [name for name in cameras if name in observation]
    if not present:
        seen = ", ".join(sorted(observation)) or "nothing"
        raise UserError(f"the batch has none of the cameras {', '.join(cameras)}; it has {seen}")
    pixels = _all_fitted([observation[name] for name in present], config.resize_imgs_with_padding)
    are_there = torch.stack([_is_there(observation, name) for name in present])
    num_empty = min(config.empty_cameras, len(cameras) - len(present))
    if num_empty > 0:
        empty = torch.full_like(pixels[:1], -1).expand(num_empty, *pixels.shape[1:])
        pixels = torch.cat([pixels, empty])
        are_there = F.pad(are_there, (0, 0, 0, num_empty))
    return Pictures(pixels, are_there)


def _all_fitted(shown: list[Tensor], size: tuple[int, int]) -> Tensor:
    """Images of all cameras; those of one size are resized together."""
    is_alike = len({each.shape for each in shown}) == 1
    if not is_alike:
        return torch.stack([fitted(each, size) for each in shown])
    pixels = fitted(torch.cat(shown), size)
    return pixels.view(len(shown), -1, *pixels.shape[1:])


def fitted(images: Tensor, size: tuple[int, int]) -> Tensor:
    """Images from 0 to 1 in the lower right of a width and height, from -1 to 1; the rest is -1."""
    width, height = size
    if images.shape[-2:] == (height, width):
        return images * 2 - 1
    ratio = max(images.shape[-1] / width, images.shape[-2] / height)
    inner = int(images.shape[-2] / ratio), int(images.shape[-1] / ratio)
    images = F.interpolate(images, size=inner, mode="bilinear", align_corners=False)
    padding = (width - inner[1], 0, height - inner[0], 0)
    return F.pad(images * 2 - 1, padding, value=-1.0)


def _is_there(observation: Batch, name: str) -> Tensor:
    mask = observation.get(name + PADDING_MASK)
    if isinstance(mask, Tensor):
        return mask.bool()
    images = observation[name]
    return torch.ones(len(images), dtype=torch.bool, device=images.device)
