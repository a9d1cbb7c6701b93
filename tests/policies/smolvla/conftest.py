"""A tiny SmolVLA, and batches for it."""

import json
import math
import shutil
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from manyhands.config.policies.features import FeatureType, PolicyFeature
from manyhands.config.policies.smolvla import SmolVLAConfig
from manyhands.draws.generator import GeneratorSource
from manyhands.lerobot_format.names import LANGUAGE_MASK, LANGUAGE_TOKENS
from manyhands.types import Batch

CAMERAS = ("observation.images.top", "observation.images.wrist")
INPUTS = {"observation.state": PolicyFeature(FeatureType.STATE, (4,))} | dict.fromkeys(
    CAMERAS, PolicyFeature(FeatureType.VISUAL, (3, 24, 40))
)
SIZES: dict[str, Any] = {
    "input_features": INPUTS,
    "output_features": {"action": PolicyFeature(FeatureType.ACTION, (3,))},
    "num_vlm_layers": 4,
    "chunk_size": 5,
    "n_action_steps": 5,
    "resize_imgs_with_padding": (32, 32),
    "max_state_dim": 8,
    "max_action_dim": 6,
    "random_vlm": True,
}


def generator(name: str) -> torch.Generator:
    return torch.Generator().manual_seed(zlib.crc32(name.encode()))


def fill(network: nn.Module) -> nn.Module:
    """Weights large enough for every one of them to matter."""
    with torch.no_grad():
        for name, value in network.named_parameters():
            noise = torch.randn(value.shape, generator=generator(name))
            is_norm = value.ndim == 1 and name.endswith("weight")
            size = 0.1 if value.ndim == 1 else 1 / math.sqrt(value[0].numel())
            value.copy_(is_norm + size * noise)
    return network


def batch_of(num_samples: int = 3) -> Batch:
    made = generator("batch")
    batch: Batch = {name: torch.rand(num_samples, 3, 24, 40, generator=made) for name in CAMERAS}
    is_pad = torch.arange(5) >= 5 - torch.arange(num_samples)[:, None]
    words = torch.randint(3, 259, (num_samples, 7), generator=made)
    lengths = 4 + torch.arange(num_samples) % 4
    return batch | {
        "observation.state": torch.randn(num_samples, 4, generator=made),
        "action": torch.randn(num_samples, 5, 3, generator=made),
        "action_is_pad": is_pad,
        LANGUAGE_TOKENS: words,
        LANGUAGE_MASK: torch.arange(7) < lengths[:, None],
    }


@pytest.fixture(scope="session")
def tiny(tiny_vlm: Path) -> SimpleNamespace:
    """Configurations, networks and batches, by name."""
    from manyhands.policies.smolvla.network import SmolVLANetwork

    def config(**changes: Any) -> SmolVLAConfig:
        return SmolVLAConfig(**({"vlm_model_name": str(tiny_vlm)} | SIZES | changes))

    def network(**changes: Any) -> SmolVLANetwork:
        made = fill(SmolVLANetwork(config(**changes)))
        assert isinstance(made, SmolVLANetwork)
        return made

    def draws(name: str = "draws") -> dict[str, torch.Tensor]:
        return network().draw(GeneratorSource(3, generator(name)))

    return SimpleNamespace(
        config=config, network=network, batch=batch_of, draws=draws, cameras=CAMERAS
    )


@pytest.fixture
def other_vlm(tiny_vlm: Path, tmp_path: Path) -> Any:
    """Makes a copy of the tiny model with other values in its configuration."""

    def make(**text: Any) -> Path:
        folder = shutil.copytree(tiny_vlm, tmp_path / "other_vlm")
        document = json.loads((folder / "config.json").read_text())
        document["text_config"] |= text
        (folder / "config.json").write_text(json.dumps(document))
        return folder

    return make
