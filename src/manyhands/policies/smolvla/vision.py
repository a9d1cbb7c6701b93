"""The image encoder of the vision-language model, without device synchronization.

transformers' own forward computes the positions of patches and an empty mask by reading from the
device. Here all images have one size, so positions are known beforehand and nothing is masked.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from manyhands.policies.smolvla.attention import kind_of

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
    kind = kind_of(weight)
    # Weights that have the type already do without autocast, which would widen every norm.
    with torch.autocast(pixels.device.type, kind, enabled=kind != weight.dtype):
        hidden = _patches(vision.embeddings, pixels.to(kind), places)
        for layer in vision.encoder.layers:
            hidden = layer(hidden)
        features: Tensor = vision.post_layernorm(hidden)
        return features


def _patches(embeddings: Any, pixels: Tensor, places: Tensor) -> Tensor:
    """Each patch as a vector with its position embedding."""
    size, projection = embeddings.patch_size, embeddings.patch_embedding
    patches = pixels.unfold(2, size, size).unfold(3, size, size).permute(0, 2, 3, 1, 4, 5)
    patches = patches.flatten(3).flatten(1, 2)
    hidden = F.linear(patches, projection.weight.flatten(1), projection.bias)
    known: Tensor = embeddings.position_embedding(places)
    return hidden + known.to(hidden.dtype)
