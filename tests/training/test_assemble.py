"""From a config to the parts of a run."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from manyhands.config.features import FeatureType, PolicyFeature
from manyhands.config.policy import ActConfig
from manyhands.config.resolve import read_train_config
from manyhands.config.train import DatasetConfig
from manyhands.data.writing.writer import DatasetWriter
from manyhands.errors import ConfigError, DatasetError, WeightsUnavailable
from manyhands.lerobot_format.dataset_info import Feature, read_info
from manyhands.parallel.world import joined_world
from manyhands.policies.load import load_policy
from manyhands.training.assemble import (
    fresh_policy,
    loading_of,
    make_policy,
    open_training_data,
    statistics_of,
    windows_of,
    with_features,
)
from manyhands.training.start import run_training

CAMERA = "observation.images.top"


@pytest.fixture(scope="module")
def camera_dataset(tmp_path_factory) -> Path:
    """One episode with a camera stored as images, and no environment state."""
    root = tmp_path_factory.mktemp("data") / "camera"
    features = {
        "observation.state": {"dtype": "float32", "shape": (3,), "names": None},
        "action": {"dtype": "float32", "shape": (2,), "names": None},
        CAMERA: {"dtype": "image", "shape": (32, 32, 3), "names": ["height", "width", "channels"]},
    }
    random = np.random.default_rng(0)
    with DatasetWriter.create(root, 10, features) as writer:
        for _ in range(6):
            vectors = {"observation.state": random.normal(size=3), "action": random.normal(size=2)}
            frame = {name: value.astype("f4") for name, value in vectors.items()}
            frame[CAMERA] = random.integers(0, 255, (32, 32, 3), dtype=np.uint8)
            writer.add_frame({**frame, "task": "look"})
        writer.save_episode()
    return root


def test_a_policy_takes_all_features_of_the_dataset_root(tiny_dataset):
    policy = with_features(ActConfig(), read_info(tiny_dataset))
    assert list(policy.input_features) == [
        "observation.state",
        "observation.environment_state",
        "observation.velocity",
    ]
    assert policy.output_features == {"action": PolicyFeature(FeatureType.ACTION, (2,))}


def test_other_output_features_than_the_datasets_are_told_with_both_sizes(tiny_dataset):
    asked = ActConfig(output_features={"action": PolicyFeature(FeatureType.ACTION, (9,))})
    with pytest.raises(ConfigError, match=r"predicts action.*\[9\].*output_features.*\[2\]"):
        with_features(asked, read_info(tiny_dataset))


def test_a_feature_that_the_dataset_has_not_or_otherwise_is_told_with_what_it_has(tiny_dataset):
    asked = {
        "observation.state": PolicyFeature(FeatureType.STATE, (7,)),
        "observation.depth": PolicyFeature(FeatureType.STATE, (1,)),
    }
    with pytest.raises(ConfigError) as caught:
        with_features(ActConfig(input_features=asked), read_info(tiny_dataset))
    assert "[7]" in caught.value.faults[0]
    assert "[3]" in caught.value.faults[0]
    assert "observation.velocity" in caught.value.faults[1]


def test_a_dataset_without_actions_is_refused(tiny_dataset):
    info = read_info(tiny_dataset)
    features = {"observation.state": Feature("float32", (3,))}
    with pytest.raises(DatasetError, match="no feature `action`"):
        with_features(ActConfig(), replace(info, features=features))


def test_only_actions_have_a_window_in_act(tiny_dataset):
    policy = with_features(ActConfig(chunk_size=3, n_action_steps=3), read_info(tiny_dataset))
    assert windows_of(policy) == {"action": [0, 1, 2]}


def test_cameras_the_policy_does_not_read_are_never_decoded(camera_dataset):
    state = '{"observation.state": {"type": "STATE", "shape": [3]}}'
    flags = ["--policy=act", f"--dataset.root={camera_dataset}", f"--policy.input_features={state}"]
    dataset, _ = open_training_data(read_train_config(flags))
    assert CAMERA not in dataset.batch([0])


def test_imagenet_statistics_replace_mean_and_deviation_of_cameras_only(camera_dataset):
    flags = ["--policy=act", f"--dataset.root={camera_dataset}"]
    dataset, config = open_training_data(read_train_config(flags))
    own = statistics_of(DatasetConfig(use_imagenet_stats=False), config.policy, dataset)
    imagenet = statistics_of(DatasetConfig(use_imagenet_stats=True), config.policy, dataset)
    assert imagenet[CAMERA]["mean"].ravel().tolist() == [0.485, 0.456, 0.406]
    assert imagenet[CAMERA]["mean"].shape == (3, 1, 1)
    assert np.array_equal(imagenet[CAMERA]["min"], own[CAMERA]["min"])
    assert imagenet["action"] is own["action"]
    assert not np.array_equal(own[CAMERA]["mean"], imagenet[CAMERA]["mean"])


def test_loader_flags_reach_the_loader(tiny_dataset):
    flags = [
        "--policy=act",
        f"--dataset.root={tiny_dataset}",
        "--policy.device=cpu",
        "--num_workers=3",
        "--prefetch_factor=7",
        "--dataloader_multiprocessing_context=spawn",
    ]
    config = read_train_config(flags)
    with joined_world(config) as world:
        loading = loading_of(config, world)
    assert (loading.num_workers, loading.prefetch_factor) == (3, 7)
    assert loading.multiprocessing_context == "spawn"


@pytest.fixture
def offline(tmp_path, monkeypatch):
    """A machine without the published weights and without a way to fetch them."""
    monkeypatch.setattr(torch.hub, "_hub_dir", str(tmp_path / "hub"))
    monkeypatch.setattr("manyhands.policies.vision._PUBLISHER", "http://127.0.0.1:9")


def camera_policy(weights: str) -> ActConfig:
    return ActConfig(
        input_features={
            "observation.state": PolicyFeature(FeatureType.STATE, (3,)),
            CAMERA: PolicyFeature(FeatureType.VISUAL, (3, 32, 32)),
        },
        output_features={"action": PolicyFeature(FeatureType.ACTION, (2,))},
        vision_backbone=weights.partition("_")[0].lower(),
        pretrained_backbone_weights=weights,
    )


def test_default_pretrained_backbone_weights_are_done_without_offline_and_aloud(offline):
    policy, notes = fresh_policy(camera_policy("ResNet18_Weights.IMAGENET1K_V1"), {})
    assert policy.config.pretrained_backbone_weights is None
    assert "random weights" in notes[0]
    assert "--policy.pretrained_backbone_weights=null" in notes[0]


def test_pretrained_backbone_weights_asked_for_by_name_are_refused_offline(offline):
    with pytest.raises(WeightsUnavailable, match="resnet34"):
        fresh_policy(camera_policy("ResNet34_Weights.IMAGENET1K_V1"), {})


def test_training_starts_from_the_weights_of_policy_path(command, tmp_path, tiny_dataset):
    run_training(read_train_config(command.argv(tmp_path / "first", "--steps=1")))
    first = tmp_path / "first" / "checkpoints" / "last"
    flags = [f"--dataset.root={tiny_dataset}", f"--policy.path={first}"]
    dataset, config = open_training_data(read_train_config(flags))
    with joined_world(config) as world:
        policy, _ = make_policy(config, dataset, world.device)
    for name, value in load_policy(first).network.state_dict().items():
        assert torch.equal(value, policy.network.state_dict()[name]), name
