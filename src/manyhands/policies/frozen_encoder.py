"""A policy's frozen image encoder: its tokens of an image never change."""

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import cast

import numpy as np
import torch
from torch import Tensor

from manyhands.config.policies.base import visual_features
from manyhands.config.sections.cache import FLAG
from manyhands.errors import ConfigError
from manyhands.policies.normalize import affine_maps
from manyhands.policies.policy import Policy
from manyhands.types import VISION_TOKENS, Batch, VisionEncoder

_BITS = torch.int16


def storable(tokens: Tensor) -> Tensor:
    """Tokens in a dtype of numpy."""
    return tokens.view(_BITS) if tokens.dtype is torch.bfloat16 else tokens


def restored(tokens: Tensor) -> Tensor:
    """Tokens in their original dtype."""
    return tokens.view(torch.bfloat16) if tokens.dtype is _BITS else tokens


class FrozenEncoder:
    """Encodes raw images as tokens, exactly as its policy does in training."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._network = encoder_in(policy)

    def tokens(self, camera: str, images: Tensor) -> Tensor:
        """Tokens (images, tokens, width) of a camera's raw images."""
        with torch.no_grad():
            return self._network.vision_tokens(self.policy.normalized(camera, images))

    def stored_tokens(self, camera: str, images: Tensor) -> np.ndarray:
        """The same in the dtype of files."""
        tokens: np.ndarray = storable(self.tokens(camera, images)).cpu().numpy()
        return tokens

    def with_tokens(self, batch: Batch) -> Batch:
        """A raw batch with tokens instead of the images of all cameras."""
        cameras = [name for name in self.cameras if name in batch]
        tokens = {name + VISION_TOKENS: self.tokens(name, batch[name]) for name in cameras}
        return {name: each for name, each in batch.items() if name not in cameras} | tokens

    @property
    def cameras(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the images of all cameras that are recorded."""
        recorded = self.policy.config.recorded_features
        names = visual_features(self.policy.config)
        return {name: recorded[name].shape for name in names if name in recorded}

    def identity(self, precision: str) -> dict[str, str]:
        """By camera, a digest of all that determines its tokens except the images."""
        policy = self.policy
        scales = affine_maps(policy.processors.inputs)
        common = {
            "weights": weights_digest(self._network.vision_parameters()),
            "settings": self._network.vision_settings(),
            "computed": [precision, str(policy.dtype), policy.device.type, torch.__version__],
        }
        return {
            name: _digest(common | {"scale": [each.tolist() for each in scales.get(name, ())]})
            for name in self.cameras
        }


def encoder_in(policy: Policy) -> VisionEncoder:
    """The network of a policy; rejects one without a frozen image encoder."""
    network = policy.network
    if not isinstance(network, VisionEncoder):
        kind = policy.config.type
        raise ConfigError(f"{FLAG}: {kind} has no image encoder to cache. Remove it")
    encoder = cast(VisionEncoder, network)
    learning = [name for name, each in encoder.vision_parameters().items() if each.requires_grad]
    if learning:
        raise ConfigError(
            f"{FLAG} needs a frozen image encoder, but {learning[0]} is trained. Freeze "
            f"it (SmolVLA: --policy.train_expert_only=true), or remove {FLAG}"
        )
    return encoder


def weights_digest(weights: Mapping[str, Tensor]) -> str:
    """A digest of the weights and their dtypes."""
    digest = sha256()
    for name, weight in sorted(weights.items()):
        digest.update(f"{name} {weight.dtype} {tuple(weight.shape)}\n".encode())
        digest.update(weight.detach().cpu().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _digest(facts: Mapping[str, object]) -> str:
    return sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
