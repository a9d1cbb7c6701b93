"""Small policies that between them use every branch, with statistics and batches for them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from both_sides import scrambled
from safetensors.torch import save_file
from torch import Tensor

from manyhands.config.policies.base import PolicyConfig
from manyhands.config.policies.registry import POLICY_TYPES
from manyhands.config.schema.json_values import decode
from manyhands.policies.build import build_policy
from manyhands.policies.policy import Policy
from manyhands.types import Batch, Stats

Document = dict[str, Any]

SIZE = [3, 64, 96]
NUM_SAMPLES = 3
VECTORS = {"observation.state": ("STATE", 6), "observation.environment_state": ("ENV", 5)}
CAMERAS = ("observation.images.top", "observation.images.wrist")
MODES = ("MEAN_STD", "MIN_MAX", "QUANTILES", "QUANTILE10", "IDENTITY")
NUM_ACTIONS = 4
BACKBONE = {"pretrained_backbone_weights": None}
CONSTANT = 0
"""The entry of every vector that never changes, whose range is therefore empty."""


def document(num_cameras: int, **fields: Any) -> Document:
    """A policy's `config.json`, with features and the fields that are given."""
    cameras = {key: {"type": "VISUAL", "shape": SIZE} for key in CAMERAS[:num_cameras]}
    vectors = {key: {"type": kind, "shape": [size]} for key, (kind, size) in VECTORS.items()}
    return {
        "input_features": cameras | vectors,
        "output_features": {"action": {"type": "ACTION", "shape": [NUM_ACTIONS]}},
        **fields,
    }


def act(num_cameras: int, **changes: Any) -> Document:
    """A tiny ACT without dropout."""
    sizes = {
        "chunk_size": 8,
        "n_action_steps": 5,
        "dim_model": 32,
        "n_heads": 4,
        "dim_feedforward": 64,
        "latent_dim": 8,
        "n_encoder_layers": 2,
        "n_vae_encoder_layers": 2,
        "dropout": 0.0,
        "normalization_mapping": dict.fromkeys(("VISUAL", "STATE", "ACTION"), "MEAN_STD"),
    }
    return document(num_cameras, type="act", **(BACKBONE | sizes | changes))


def diffusion(num_cameras: int, **changes: Any) -> Document:
    """A tiny Diffusion Policy."""
    sizes = {
        "horizon": 16,
        "n_action_steps": 6,
        "down_dims": [16, 32, 64],
        "diffusion_step_embed_dim": 16,
        "spatial_softmax_num_keypoints": 8,
        "num_inference_steps": 10,
        "crop_is_random": False,
        "normalization_mapping": {"VISUAL": "MEAN_STD", "STATE": "MIN_MAX", "ACTION": "MIN_MAX"},
    }
    return document(num_cameras, type="diffusion", **(BACKBONE | sizes | changes))


def smolvla(num_cameras: int, **changes: Any) -> Document:
    """A tiny SmolVLA; where its vision-language model lies is given later."""
    sizes = {
        "chunk_size": 5,
        "n_action_steps": 4,
        "num_vlm_layers": 4,
        "resize_imgs_with_padding": [32, 32],
        "max_state_dim": 8,
        "max_action_dim": 6,
        "normalization_mapping": {
            "VISUAL": "IDENTITY",
            "STATE": "MEAN_STD",
            "ACTION": "MEAN_STD",
        },
    }
    made = document(num_cameras, type="smolvla", **(sizes | changes))
    inputs = made["input_features"].items()
    read = {key: each for key, each in inputs if each["type"] != "ENV"}
    return made | {"input_features": read}


CASES: dict[str, Document] = {
    "ACT, VAE, two cameras": act(2),
    "ACT, no VAE, pre-norm, one camera": act(
        1, use_vae=False, pre_norm=True, feedforward_activation="gelu", n_decoder_layers=2
    ),
    "ACT, VAE, pre-norm, no camera": act(0, pre_norm=True),
    "ACT, temporal ensemble": act(0, temporal_ensemble_coeff=0.01, n_action_steps=1),
    "Diffusion, DDPM, batch norm, encoder per camera": diffusion(2),
    "Diffusion, DDPM, random crops": diffusion(1, crop_shape=[56, 72], crop_is_random=True),
    "Diffusion, DDIM, sample, group norm, one encoder, resized": diffusion(
        2,
        noise_scheduler_type="DDIM",
        prediction_type="sample",
        use_group_norm=True,
        use_separate_rgb_encoder_per_camera=False,
        use_film_scale_modulation=False,
        resize_shape=[48, 72],
        crop_ratio=0.9,
        do_mask_loss_for_padding=True,
    ),
    "Diffusion, DDPM, no camera, all steps": diffusion(
        0, num_train_timesteps=40, num_inference_steps=None, beta_schedule="linear"
    ),
}


def config_of(case: Document) -> PolicyConfig:
    """Our configuration of a case."""
    fields = {key: value for key, value in case.items() if key != "type"}
    config: PolicyConfig = decode(POLICY_TYPES[case["type"]], fields | {"device": "cpu"})
    return config.without_downloads()


def save_ours(case: Document, folder: Path, stats: Stats | None = None) -> None:
    """Make a policy with scrambled weights and save it."""
    policy: Policy = build_policy(config_of(case), stats or make_stats(case))
    policy.network.load_state_dict(scrambled(policy.network.state_dict(), seed=7))
    policy.save(folder)


def save_theirs(
    case: Document, folder: Path, lerobot: Callable[..., Any], stats: Stats | None = None
) -> None:
    """Let LeRobot make a policy with scrambled weights and save it."""
    file = folder.with_name(f"{folder.name}-stats.safetensors")
    save_file(flat_stats(stats or make_stats(case)), file)
    lerobot("create_policy", config=case, stats=file, folder=folder, seed=8)


def make_stats(case: Document) -> Stats:
    """Statistics of every feature; the first entry of a vector is constant."""
    random = np.random.default_rng(3)
    stats: Stats = {}
    for key, feature in (case["input_features"] | case["output_features"]).items():
        shape = (3, 1, 1) if feature["type"] == "VISUAL" else tuple(feature["shape"])
        center = random.uniform(0.3, 0.6, shape)
        width = random.uniform(0.1, 0.3, shape)
        if feature["type"] != "VISUAL":
            width[CONSTANT] = 0
        spread = {"min": -1, "q01": -0.9, "q10": -0.6, "q50": 0.1, "q90": 0.7, "q99": 0.9, "max": 1}
        stats[key] = {name: center + share * width for name, share in spread.items()}
        stats[key] |= {"mean": center, "std": width / 2, "count": np.array([100])}
    return stats


def flat_stats(stats: Stats) -> dict[str, Tensor]:
    """Statistics by `<feature>.<name>`."""
    return {
        f"{key}.{name}": torch.from_numpy(np.asarray(value, np.float32))
        for key, values in stats.items()
        for name, value in values.items()
    }


def make_batch(case: Document) -> Batch:
    """A raw batch as a dataset delivers it, images as bytes; the last actions are padding."""
    config, stats = config_of(case), make_stats(case)
    offsets = config.observation_offsets
    time = () if offsets is None else (len(offsets),)
    generator = torch.Generator().manual_seed(5)
    batch: Batch = {}
    for key, feature in config.recorded_features.items():
        if key in CAMERAS:
            shape = (NUM_SAMPLES, *time, *feature.shape)
            batch[key] = torch.randint(0, 256, shape, generator=generator, dtype=torch.uint8)
        else:
            batch[key] = _vectors((NUM_SAMPLES, *time), stats[key], generator)
    num_steps = len(config.action_offsets)
    batch["action"] = _vectors((NUM_SAMPLES, num_steps), stats["action"], generator)
    num_valid = num_steps - torch.arange(NUM_SAMPLES)
    batch["action_is_pad"] = torch.arange(num_steps) >= num_valid[:, None]
    return batch


def _vectors(
    leading: tuple[int, ...], stats: dict[str, np.ndarray], generator: torch.Generator
) -> Tensor:
    center, width = (torch.from_numpy(stats[name]).float() for name in ("mean", "std"))
    noise = torch.randn((*leading, *center.shape), generator=generator)
    return center + width * noise.clamp(-1.9, 1.9)
