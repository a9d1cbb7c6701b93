"""Synthetic data: features, statistics, and one random batch."""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from manyhands.config.commands.synthetic_data import SyntheticDataConfig
from manyhands.config.policies.base import PolicyConfig
from manyhands.config.policies.features import FeatureType, PolicyFeature
from manyhands.lerobot_format import names
from manyhands.rng import derive_seed
from manyhands.types import Batch, Stats

CAMERA = "observation.images.camera_{}"
STATE = "observation.state"
NUM_CAMERAS, IMAGE_SIZE, NUM_JOINTS = 1, (480, 640), 14
"""Typical of robots with two arms of seven joints."""
STATISTICS = {"mean": 0.0, "std": 1.0, "min": -1.0, "max": 1.0}
MIN_TOKEN, MAX_TOKEN = 3, 256
"""Tokens that every tokenizer has, and that stand for no more than a letter."""
QUANTILES = {"q01": -1.0, "q10": -0.9, "q90": 0.9, "q99": 1.0}


def with_synthetic_features(policy: PolicyConfig, shapes: SyntheticDataConfig) -> PolicyConfig:
    """The policy with features from the flags; without flags it keeps its own."""
    if policy.input_features and policy.output_features and not shapes.named_shapes:
        return policy
    number = NUM_CAMERAS if shapes.cameras is None else shapes.cameras
    image = PolicyFeature(FeatureType.VISUAL, (3, *(shapes.image_size or IMAGE_SIZE)))
    state = PolicyFeature(FeatureType.STATE, (shapes.state_dim or NUM_JOINTS,))
    scene = {CAMERA.format(index): image for index in range(number)}
    if not scene:
        # A policy needs an observation besides the robot's state.
        scene = {names.ENVIRONMENT_STATE: replace(state, type=FeatureType.ENV)}
    action = PolicyFeature(FeatureType.ACTION, (shapes.action_dim or NUM_JOINTS,))
    return replace(
        policy, input_features={STATE: state} | scene, output_features={names.ACTION: action}
    )


def synthetic_stats(policy: PolicyConfig) -> Stats:
    """Statistics of every feature, whichever of them its policy scales by."""
    stats: Stats = {}
    for name, feature in (policy.input_features | policy.output_features).items():
        is_image = feature.type is FeatureType.VISUAL
        shape = (feature.shape[0], 1, 1) if is_image else feature.shape
        numbers = (STATISTICS | QUANTILES).items()
        stats[name] = {key: np.full(shape, value, np.float32) for key, value in numbers}
    return stats


def synthetic_batch(policy: PolicyConfig, num_samples: int, device: torch.device) -> Batch:
    """Random samples on a device; images are uint8, no action is padding."""
    generator = torch.Generator(device).manual_seed(derive_seed(0, "made-up"))
    seen = () if policy.observation_offsets is None else (len(policy.observation_offsets),)
    done = (len(policy.action_offsets),)
    batch: Batch = {
        name: _random((num_samples, *seen), feature, generator)
        for name, feature in policy.input_features.items()
    }
    for name, feature in policy.output_features.items():
        batch[name] = _random((num_samples, *done), feature, generator)
        batch[name + names.PAD_SUFFIX] = torch.zeros(
            (num_samples, *done), dtype=torch.bool, device=device
        )
    return batch | _synthetic_tokens(policy, num_samples, generator)


def _synthetic_tokens(policy: PolicyConfig, num_samples: int, generator: torch.Generator) -> Batch:
    if policy.language is None:
        return {}
    shape, device = (num_samples, policy.language.max_length), generator.device
    tokens = torch.randint(MIN_TOKEN, MAX_TOKEN, shape, generator=generator, device=device)
    mask = torch.ones(shape, dtype=torch.bool, device=device)
    return {names.LANGUAGE_TOKENS: tokens, names.LANGUAGE_MASK: mask}


def _random(lead: tuple[int, ...], feature: PolicyFeature, generator: torch.Generator) -> Tensor:
    shape, device = lead + feature.shape, generator.device
    if feature.type is FeatureType.VISUAL:
        return torch.randint(256, shape, dtype=torch.uint8, generator=generator, device=device)
    return torch.randn(shape, generator=generator, device=device)
