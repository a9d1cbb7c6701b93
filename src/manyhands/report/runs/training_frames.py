"""Samples of training frames as the policy sees them: augmented, resized and cropped."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from manyhands.config.policies.base import PolicyConfig, visual_features
from manyhands.config.policies.diffusion import DiffusionConfig
from manyhands.config.policies.smolvla import SmolVLAConfig
from manyhands.config.train import TrainConfig
from manyhands.data.augment.augmentation import build_augmentation
from manyhands.data.dataset import Dataset, open_dataset
from manyhands.data.dataset_selection import find_datasets
from manyhands.data.policy_reading import part_reading
from manyhands.data.read_options import ReadOptions
from manyhands.draws.counter import CounterSource, derive_key
from manyhands.errors import UserError
from manyhands.policies.diffusion.encoder import center_crop, crop, crop_margin, seen_size
from manyhands.policies.smolvla.images import resize_with_padding
from manyhands.report.runs.configuration import read_config

STREAM = "report"
NUM_COLORS = 3


@dataclass(frozen=True)
class SeenFrame:
    """A frame (height, width, 3) of uint8, and where it comes from."""

    caption: str
    pixels: np.ndarray


@dataclass(frozen=True)
class TrainingFrames:
    """Frames by camera, and a sentence about them, or about why there are none."""

    note: str
    cameras: Mapping[str, list[SeenFrame]]


def training_frames(run: Mapping[str, Any], num_frames: int) -> TrainingFrames:
    """Frames of a run's dataset, if that is still in its folder; nothing is downloaded."""
    root = dataset_root(run)
    config = read_config(run)
    if config is None or config.policy is None:
        return TrainingFrames("Training frames are not shown: run.json has no valid config.", {})
    if not color_cameras(config.policy):
        return TrainingFrames("The policy reads no color camera.", {})
    if root is None:
        return TrainingFrames("Training frames are not shown: the dataset is not reachable.", {})
    try:
        return _read(config, root, num_frames)
    except (UserError, OSError, ValueError, KeyError, IndexError) as error:
        return TrainingFrames(f"Training frames are not shown: {error}", {})


def dataset_root(run: Mapping[str, Any]) -> Path | None:
    """The first folder that a run was trained on; None if it is not here."""
    section = run.get("dataset")
    named = section.get("root") if isinstance(section, dict) else None
    root = Path(str(named).partition(", ")[0]) if named else None
    return root if root is not None and (root / "meta" / "info.json").is_file() else None


def color_cameras(policy: PolicyConfig) -> list[str]:
    """The cameras that a policy reads, without those of depth."""
    names = visual_features(policy)
    return [name for name in names if policy.input_features[name].shape[0] == NUM_COLORS]


def _read(config: TrainConfig, root: Path, num_frames: int) -> TrainingFrames:
    assert config.policy is not None
    named = replace(config.dataset, repo_id=None, root=root, revision=None, mix=None)
    (part,) = find_datasets(named)
    reading = ReadOptions(
        rename_map=config.rename_map,
        image_size=config.dataset.image_size,
        depth_unit=config.dataset.depth_output_unit,
    )
    reading = part_reading(part, config.policy, reading)
    dataset = open_dataset(None, root, part.training.tolist(), {}, reading)
    rows = np.linspace(0, len(dataset) - 1, min(num_frames, len(dataset))).round().astype(int)
    source = CounterSource(derive_key(config.seed, STREAM), torch.from_numpy(rows))
    augmentation = build_augmentation(config.dataset.image_transforms, config.policy.input_features)
    batch = augmentation(dataset.batch(rows), augmentation.draw(source))
    cameras = {
        name: _frames(dataset, rows, seen(batch[name], config.policy, source))
        for name in color_cameras(config.policy)
        if name in batch
    }
    is_augmented = bool(augmentation.cameras)
    drawn = "Augmented as in training, with other random draws" if is_augmented else "Not augmented"
    return TrainingFrames(f"{drawn}; before normalization.", cameras)


def seen(images: Tensor, policy: PolicyConfig, source: CounterSource) -> Tensor:
    """Images (samples, 3, height, width) from 0 to 1, resized and cropped as a policy does it."""
    pixels = images.float() / 255 if images.dtype == torch.uint8 else images
    if isinstance(policy, SmolVLAConfig) and policy.resize_imgs_with_padding is not None:
        return (resize_with_padding(pixels, policy.resize_imgs_with_padding) + 1) / 2
    if not isinstance(policy, DiffusionConfig):
        return pixels
    shape = tuple(pixels.shape[1:])
    if policy.resize_shape is not None:
        pixels = F.interpolate(pixels, policy.resize_shape, mode="bilinear", antialias=True)
    size = seen_size(policy, shape)
    if not policy.crop_is_random:
        return center_crop(pixels, size)
    corners = [source.integers(margin + 1) for margin in crop_margin(policy, shape)]
    return crop(pixels, size, torch.stack(corners, dim=1))


def _frames(dataset: Dataset, rows: np.ndarray, images: Tensor) -> list[SeenFrame]:
    pixels = (images.clamp(0, 1) * 255).round().byte().permute(0, 2, 3, 1).numpy()
    captions = _captions(dataset, rows)
    return [SeenFrame(*each) for each in zip(captions, pixels, strict=True)]


def _captions(dataset: Dataset, rows: np.ndarray) -> list[str]:
    places = np.searchsorted(dataset.episode_bounds[:, 1], rows, side="right")
    return [
        f"episode {dataset.episodes[place]}, frame {row - dataset.episode_bounds[place, 0]}"
        for place, row in zip(places.tolist(), rows.tolist(), strict=True)
    ]
