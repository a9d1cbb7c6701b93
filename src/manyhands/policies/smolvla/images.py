"""Pictures of all cameras as the image encoder takes them: one size, values from -1 to 1."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from manyhands.config.policy import visual_features
from manyhands.config.smolvla import SmolVLAConfig
from manyhands.errors import UserError
from manyhands.types import Batch

PADDING_MASK = "_padding_mask"
"""Ending of the key that tells which samples a camera has a picture of."""


class Pictures(NamedTuple):
    """What the cameras show."""

    pixels: Tensor
    """(cameras, samples, 3, height, width), from -1 to 1."""
    are_there: Tensor
    """(cameras, samples), whether there is a picture at all."""


def pictures_of(observation: Batch, config: SmolVLAConfig) -> Pictures:
    """The pictures of the cameras that are there, and empty ones for some that are not."""
    cameras = visual_features(config)
    present = [name for name in cameras if name in observation]
    if not present:
        seen = ", ".join(sorted(observation)) or "nothing"
        raise UserError(f"the batch has none of the cameras {', '.join(cameras)}; it has {seen}")
    pixels = [fitted(observation[name], config.resize_imgs_with_padding) for name in present]
    are_there = [_is_there(observation, name) for name in present]
    num_empty = min(config.empty_cameras, len(cameras) - len(present))
    pixels += [torch.full_like(pixels[-1], -1)] * num_empty
    are_there += [torch.zeros_like(are_there[-1])] * num_empty
    return Pictures(torch.stack(pixels), torch.stack(are_there))


def fitted(images: Tensor, size: tuple[int, int]) -> Tensor:
    """Images from 0 to 1 in the lower right of a width and height, from -1 to 1; the rest is -1."""
    width, height = size
    if images.shape[-2:] != (height, width):
        ratio = max(images.shape[-1] / width, images.shape[-2] / height)
        inner = int(images.shape[-2] / ratio), int(images.shape[-1] / ratio)
        images = F.interpolate(images, size=inner, mode="bilinear", align_corners=False)
        images = F.pad(images, (width - inner[1], 0, height - inner[0], 0))
    return images * 2 - 1


def _is_there(observation: Batch, name: str) -> Tensor:
    mask = observation.get(name + PADDING_MASK)
    if isinstance(mask, Tensor):
        return mask.bool()
    images = observation[name]
    return torch.ones(len(images), dtype=torch.bool, device=images.device)
