"""Training frames as the policy sees them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from manyhands.config.policies.act import ActConfig
from manyhands.config.policies.diffusion import DiffusionConfig
from manyhands.config.policies.features import FeatureType, PolicyFeature
from manyhands.config.policies.smolvla import SmolVLAConfig
from manyhands.config.schema.decoding import encode
from manyhands.config.sections.image_transforms import ImageTransformsConfig, TransformConfig
from manyhands.config.train import DatasetConfig, TrainConfig
from manyhands.data.writing.writer import DatasetWriter
from manyhands.draws.counter import CounterSource, derive_key
from manyhands.report.runs.training_frames import seen, training_frames

CAMERA = "observation.images.top"
FEATURES = {
    CAMERA: PolicyFeature(FeatureType.VISUAL, (3, 32, 32)),
    "observation.state": PolicyFeature(FeatureType.STATE, (2,)),
}
DARK = TransformConfig(type="ColorJitter", kwargs={"brightness": [0.5, 0.5]})


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three episodes whose frames are all of one gray."""
    root = tmp_path_factory.mktemp("seen") / "gray"
    vector = {"dtype": "float32", "shape": (2,), "names": None}
    image = {"dtype": "image", "shape": (32, 32, 3), "names": ["height", "width", "channels"]}
    features = {CAMERA: image, "observation.state": vector, "action": vector}
    with DatasetWriter.create(root, 10, features) as writer:
        for _ in range(3):
            for _ in range(4):
                numbers = {name: np.zeros(2, "f4") for name in ("observation.state", "action")}
                pixels = np.full((32, 32, 3), 200, np.uint8)
                writer.add_frame({CAMERA: pixels, **numbers, "task": "look"})
            writer.save_episode()
    return root


def run_on(root: Path, **dataset: Any) -> dict[str, Any]:
    config = TrainConfig(
        dataset=DatasetConfig(root=root, **dataset), policy=ActConfig(input_features=FEATURES)
    )
    return json.loads(json.dumps({"dataset": {"root": str(root)}, "config": encode(config)}))


def test_frames_are_spread_over_the_training_episodes(dataset: Path) -> None:
    found = training_frames(run_on(dataset), 3)
    (frames,) = found.cameras.values()
    assert [each.caption for each in frames] == [
        "episode 0, frame 0",
        "episode 1, frame 2",
        "episode 2, frame 3",
    ]
    assert all(each.pixels.shape == (32, 32, 3) and np.all(each.pixels == 200) for each in frames)
    assert found.note == "Not augmented; before normalization."
    episodes = training_frames(run_on(dataset, episodes=[1]), 9).cameras[CAMERA]
    assert len(episodes) == 4 and episodes[0].caption == "episode 1, frame 0"


def test_augmented_training_shows_augmented_frames(dataset: Path) -> None:
    transforms = ImageTransformsConfig(enable=True, max_num_transforms=1, tfs={"dark": DARK})
    found = training_frames(run_on(dataset, image_transforms=transforms), 2)
    assert all(np.all(each.pixels == 100) for each in found.cameras[CAMERA])
    assert found.note.startswith("Augmented as in training")


def test_policies_that_resize_and_crop_show_what_they_see() -> None:
    images = torch.full((2, 3, 40, 60), 0.5)
    source = CounterSource(derive_key(0, "x"), torch.arange(2))
    cropping = DiffusionConfig(crop_shape=(30, 20), input_features=FEATURES)
    assert seen(images, cropping, source).shape == (2, 3, 30, 20)
    padding = SmolVLAConfig(resize_imgs_with_padding=(64, 64))
    padded = seen(images, padding, source)
    assert padded.shape == (2, 3, 64, 64)
    assert padded[:, :, :20].max() == 0 and padded[:, :, -1].min() == 0.5
    assert seen(images, ActConfig(), source) is images


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"dataset": {"root": "/nowhere"}}, "the dataset is not reachable"),
        ({"dataset": None}, "the dataset is not reachable"),
        ({"config": None}, "run.json has no valid config"),
        ({"config": {"policy": {"type": "act"}}}, "The policy reads no color camera"),
    ],
)
def test_what_cannot_be_shown_is_explained(
    dataset: Path, changes: dict[str, Any], sentence: str
) -> None:
    found = training_frames(run_on(dataset) | changes, 2)
    assert sentence in found.note and found.cameras == {}


def test_a_damaged_dataset_is_explained(tmp_path: Path) -> None:
    (tmp_path / "meta").mkdir()
    (tmp_path / "meta" / "info.json").write_text("{")
    found = training_frames(run_on(tmp_path), 2)
    assert found.note.startswith("Training frames are not shown: ") and not found.cameras
