"""Weights and batches by formula, for which LeRobot's own results are known."""

import math
import zlib
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from manyhands.config.policies.act import ActConfig
from manyhands.config.policies.base import PolicyConfig
from manyhands.config.policies.diffusion import DiffusionConfig
from manyhands.config.policies.features import FeatureType, PolicyFeature
from manyhands.types import Batch

VECTORS = {
    "observation.state": PolicyFeature(FeatureType.STATE, (6,)),
    "observation.environment_state": PolicyFeature(FeatureType.ENV, (5,)),
}
CAMERAS = {
    "observation.images.top": PolicyFeature(FeatureType.VISUAL, (3, 64, 96)),
    "observation.images.wrist": PolicyFeature(FeatureType.VISUAL, (3, 64, 96)),
}
ACTION = {"action": PolicyFeature(FeatureType.ACTION, (4,))}


def generator(name: str) -> torch.Generator:
    return torch.Generator().manual_seed(zlib.crc32(name.encode()))


def normal(name: str, *shape: int) -> Tensor:
    return torch.randn(shape, generator=generator(name))


def uniform(name: str, *shape: int) -> Tensor:
    return torch.rand(shape, generator=generator(name))


def weight(name: str, value: Tensor) -> Tensor:
    if name.endswith(("vae_encoder_pos_enc", "pos_grid")):
        return value
    if not value.is_floating_point():
        return torch.zeros_like(value)
    noise = normal(name, *value.shape)
    if name.endswith("running_var"):
        return 1 + 0.1 * noise.abs()
    if value.ndim <= 1:
        return 0.1 * noise + (1 if name.endswith(".weight") else 0)
    return noise / math.sqrt(value.numel() / value.shape[0])


def fill(network: nn.Module) -> nn.Module:
    weights = {name: weight(name, value) for name, value in network.state_dict().items()}
    network.load_state_dict(weights)
    return network


def act_config(cameras: bool = False, **changes: Any) -> ActConfig:
    sizes: dict[str, Any] = {
        "input_features": {**CAMERAS, **VECTORS} if cameras else VECTORS,
        "output_features": ACTION,
        "chunk_size": 8,
        "n_action_steps": 8,
        "dim_model": 32,
        "n_heads": 4,
        "dim_feedforward": 64,
        "latent_dim": 8,
        "n_encoder_layers": 2,
        "n_vae_encoder_layers": 2,
        "dropout": 0.0,
        "pretrained_backbone_weights": None,
    }
    return ActConfig(**(sizes | changes))


def diffusion_config(cameras: bool = False, **changes: Any) -> DiffusionConfig:
    sizes: dict[str, Any] = {
        "input_features": {**CAMERAS, **VECTORS} if cameras else VECTORS,
        "output_features": ACTION,
        "horizon": 16,
        "n_action_steps": 8,
        "down_dims": (16, 32, 64),
        "diffusion_step_embed_dim": 16,
        "spatial_softmax_num_keypoints": 8,
        "crop_is_random": False,
        "pretrained_backbone_weights": None,
    }
    return DiffusionConfig(**(sizes | changes))


def batch_of(config: PolicyConfig) -> Batch:
    batch: Batch = {}
    offsets = config.observation_offsets
    time = () if offsets is None else (len(offsets),)
    for name, feature in config.input_features.items():
        draw = uniform if feature.type is FeatureType.VISUAL else normal
        batch[name] = draw(name, 3, *time, *feature.shape)
    num_steps = len(config.action_offsets)
    batch["action"] = normal("action", 3, num_steps, 4).clamp(-1, 1)
    steps_left = num_steps - torch.arange(3)
    batch["action_is_pad"] = torch.arange(num_steps) >= steps_left[:, None]
    return batch


@pytest.fixture(scope="session")
def golden() -> SimpleNamespace:
    """The formulas, by name."""
    return SimpleNamespace(
        normal=normal,
        fill=fill,
        act_config=act_config,
        diffusion_config=diffusion_config,
        batch_of=batch_of,
        vectors=VECTORS,
    )
