"""Limits on policy sizes, checked before anything is allocated.

A policy's `config.json` may come from an untrusted source. Each field has a limit, and the
resulting weights must fit into the memory of this machine.
"""

import math
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from manyhands.config.policies.act import ActConfig
from manyhands.config.policies.base import PolicyConfig, visual_features
from manyhands.config.policies.diffusion import DiffusionConfig
from manyhands.config.policies.smolvla import MAX_EMPTY_CAMERAS, SmolVLAConfig
from manyhands.units import num_bytes

MAX_WIDTH = 2**16
MAX_LENGTH = 2**16
MAX_DEPTH = 1024
MAX_FEATURES = 256
MAX_FEATURE_VALUES = 2**28
MAX_LEVELS = 16  # Levels of a U-Net, each of which halves what it gets.

_WIDTHS = (
    *("dim_model", "dim_feedforward", "latent_dim", "n_heads", "n_groups"),
    *("diffusion_step_embed_dim", "spatial_softmax_num_keypoints", "kernel_size"),
    *("max_state_dim", "max_action_dim", "resize_imgs_with_padding", "resize_shape", "down_dims"),
)
_LENGTHS = (
    *("n_obs_steps", "chunk_size", "horizon", "n_action_steps", "drop_n_last_frames"),
    *("num_train_timesteps", "num_inference_steps", "num_steps", "tokenizer_max_length"),
    *("prefix_length", "crop_shape"),
)
_DEPTHS = (
    *("n_encoder_layers", "n_decoder_layers", "n_vae_encoder_layers"),
    *("num_vlm_layers", "num_expert_layers", "expert_width_multiplier"),
)
LIMITS: dict[str, int] = {
    **dict.fromkeys(_WIDTHS, MAX_WIDTH),
    **dict.fromkeys(_LENGTHS, MAX_LENGTH),
    **dict.fromkeys(_DEPTHS, MAX_DEPTH),
    "empty_cameras": MAX_EMPTY_CAMERAS,
}
"""The largest value of a field, or of each of its entries, by name."""

_BYTES_PER_WEIGHT = 4
_VLM_WIDTH = 960
_RESNET_STRIDE = 32


def size_faults(config: PolicyConfig) -> list[str]:
    """Sizes out of bounds; if there are none, weights that do not fit into memory."""
    return [*_field_faults(config), *_feature_faults(config)] or [*_memory_faults(config)]


def _field_faults(config: PolicyConfig) -> Iterator[str]:
    for name, most in LIMITS.items():
        value = getattr(config, name, None)
        entries = value if isinstance(value, tuple) else (value,)
        if len(entries) > MAX_LEVELS:
            yield f"--policy.{name} has {len(entries)} entries; the maximum is {MAX_LEVELS}"
        elif any(entry is not None and not entry <= most for entry in entries):
            yield f"--policy.{name}={value!s:.60} must be at most {most}"


def _feature_faults(config: PolicyConfig) -> Iterator[str]:
    for flag in ("input_features", "output_features"):
        features = getattr(config, flag)
        if len(features) > MAX_FEATURES:
            yield f"--policy.{flag} has {len(features)} entries; the maximum is {MAX_FEATURES}"
            continue
        for name, feature in features.items():
            is_long = max(feature.shape, default=0) > MAX_WIDTH
            if is_long or math.prod(feature.shape) > MAX_FEATURE_VALUES:
                yield f"--policy.{flag}: the shape {feature.shape!s:.60} of {name} is too large"


def _memory_faults(config: PolicyConfig) -> Iterator[str]:
    estimate = _ESTIMATES.get(type(config))
    num_weights = 0 if estimate is None else estimate(config)
    needed, memory = num_weights * _BYTES_PER_WEIGHT, total_memory()
    if needed > memory:
        flags = ", ".join(f"--policy.{name}" for name in _LARGEST[type(config)])
        yield (
            f"the policy has at least {num_weights:.2g} weights ({num_bytes(needed)}), but this "
            f"machine has {num_bytes(memory)} of memory. Reduce {flags}"
        )


def total_memory() -> int:
    """Total memory of this machine in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _num_inputs(config: PolicyConfig) -> int:
    features = config.input_features | config.output_features
    cameras = visual_features(config)
    return sum(math.prod(each.shape) for name, each in features.items() if name not in cameras)


def _of_act(config: ActConfig) -> int:
    width, inner = config.dim_model, config.dim_feedforward
    attention, feedforward = 4 * width**2, 2 * width * inner
    num_encoders = config.n_encoder_layers + config.use_vae * config.n_vae_encoder_layers
    layers = num_encoders * (attention + feedforward)
    layers += config.n_decoder_layers * (2 * attention + feedforward)
    pixels = [config.input_features[name].shape[1:] for name in visual_features(config)]
    cells = sum(math.prod(shape) // _RESNET_STRIDE**2 for shape in pixels)
    return layers + width * (config.chunk_size + config.latent_dim + _num_inputs(config) + cells)


def _of_diffusion(config: DiffusionConfig) -> int:
    # Each level has two blocks of two convolutions, in the encoder and in the decoder.
    convolutions = sum(config.kernel_size * size**2 * 8 for size in config.down_dims)
    points = 2 * config.spatial_softmax_num_keypoints
    seen = config.n_obs_steps * (_num_inputs(config) + points * bool(visual_features(config)))
    condition = config.diffusion_step_embed_dim + seen
    return convolutions + sum(config.down_dims) * condition + 8 * config.diffusion_step_embed_dim**2


def _of_smolvla(config: SmolVLAConfig) -> int:
    width = int(_VLM_WIDTH * config.expert_width_multiplier)
    layers = max(1, config.num_expert_layers)
    return layers * 8 * width**2 + width * (config.max_state_dim + 2 * config.max_action_dim)


_ESTIMATES: Mapping[type, Callable[[Any], int]] = {
    ActConfig: _of_act,
    DiffusionConfig: _of_diffusion,
    SmolVLAConfig: _of_smolvla,
}
"""How many weights a policy has at least."""
_LARGEST = {
    ActConfig: ("dim_model", "dim_feedforward", "n_encoder_layers"),
    DiffusionConfig: ("down_dims", "kernel_size"),
    SmolVLAConfig: ("expert_width_multiplier", "num_expert_layers"),
}
"""The fields that weigh most."""
