"""Prepare the images of all cameras for the image encoder: one size, values from -1 to 1."""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from manyhands.config.policies.base import visual_features
from manyhands.config.policies.smolvla import SmolVLAConfig
from manyhands.errors import UserError
from manyhands.policies.smolvla.attention import weight_dtype
from manyhands.types import Batch

PADDING_MASK = "_padding_mask"
"""Suffix of the key that marks the samples with an image of a camera."""


class CameraImages(NamedTuple):
    """Images of all cameras."""

    pixels: Tensor  # (cameras, samples, 3, height, width), from -1 to 1.
    are_there: Tensor  # (cameras, samples), whether there is an image.


def camera_images(observation: Batch, config: SmolVLAConfig) -> CameraImages:
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
    return CameraImages(pixels, are_there)


def _all_fitted(shown: list[Tensor], size: tuple[int, int]) -> Tensor:
    """Images of all cameras; those of one size are resized together."""
    is_alike = len({each.shape for each in shown}) == 1
    if not is_alike:
        return torch.stack([resize_with_padding(each, size) for each in shown])
    pixels = resize_with_padding(torch.cat(shown), size)
    return pixels.view(len(shown), -1, *pixels.shape[1:])


def resize_with_padding(images: Tensor, size: tuple[int, int]) -> Tensor:
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


# transformers' own forward computes the positions of patches and an empty mask by reading from the
# device. Here all images have one size, so positions are known beforehand and nothing is masked.
_BELOW_ONE = 1 - 1e-6


def patch_places(vision: Any, image_size: int) -> Tensor:
    """Rows of the position embedding for the patches of a square image."""
    embeddings = vision.embeddings
    num_patches, num_known = image_size // embeddings.patch_size, embeddings.num_patches_per_side
    # Patches of larger or smaller images take the positions at their fraction of a side.
    shares = (torch.arange(num_patches) * (1.0 / torch.tensor(num_patches))).clamp(max=_BELOW_ONE)
    sides = torch.bucketize(shares, torch.arange(1 / num_known, 1.0, 1 / num_known), right=True)
    places: Tensor = sides[:, None] * num_known + sides
    return places.flatten()


def encoded(vision: Any, pixels: Tensor, places: Tensor) -> Tensor:
    """Features (images, patches, values) of images from -1 to 1 of one size."""
    weight = vision.embeddings.patch_embedding.weight
    kind = weight_dtype(weight)
    # Weights that have the type already do without autocast, which would widen every norm.
    with torch.autocast(pixels.device.type, kind, enabled=kind != weight.dtype):
        hidden = _patches(vision.embeddings, pixels.to(kind), places)
        for layer in vision.encoder.layers:
            hidden = layer(hidden)
        features: Tensor = vision.post_layernorm(hidden)
        return features


def _patches(embeddings: Any, pixels: Tensor, places: Tensor) -> Tensor:
    size, projection = embeddings.patch_size, embeddings.patch_embedding
    patches = pixels.unfold(2, size, size).unfold(3, size, size).permute(0, 2, 3, 1, 4, 5)
    patches = patches.flatten(3).flatten(1, 2)
    hidden = F.linear(patches, projection.weight.flatten(1), projection.bias)
    known: Tensor = embeddings.position_embedding(places)
    return hidden + known.to(hidden.dtype)
