"""Which recorded episodes a policy is compared with."""

import json
from dataclasses import replace

import numpy as np
import pytest

from manyhands.config.policies.features import FeatureType, PolicyFeature
from manyhands.config.sections.open_loop import EvaluatedDatasetConfig
from manyhands.config.train import DatasetConfig, TrainConfig
from manyhands.data.writing.writer import DatasetWriter
from manyhands.errors import UserError
from manyhands.evaluation.recorded_data import open_recorded, read_run

CAMERA = "observation.images.top"


@pytest.fixture
def opened(make_policy):
    """Opens a dataset for a policy; returns episodes, and which they are."""

    def choose(root, run=None, episodes=None):
        config = EvaluatedDatasetConfig(root=root, episodes=episodes)
        found = open_recorded(config, make_policy(), run)
        return found.dataset.episodes.tolist(), found.choice

    return choose


@pytest.mark.parametrize(
    ("trained", "expected", "choice"),
    [
        ({"eval_split": 0.3}, [2, 3], "held out of training"),
        ({"eval_split": 0.3, "exclude_episodes": [3]}, [2], "held out of training"),
        ({"episodes": [0, 2]}, [1, 3], "those that training did not use"),
        ({}, [0, 1, 2, 3], "all of the dataset; the policy was trained on them"),
    ],
)
def test_by_default_they_are_those_that_training_held_out(
    opened, tiny_dataset, trained, expected, choice
):
    run = TrainConfig(dataset=DatasetConfig(root=tiny_dataset, **trained))
    assert opened(tiny_dataset, run) == (expected, choice)


def test_the_dataset_may_have_moved(opened, tiny_dataset, tmp_path):
    run = TrainConfig(dataset=DatasetConfig(root=tmp_path / "tiny", eval_split=0.1))
    assert opened(tiny_dataset, run)[0] == [3]


def test_what_a_run_held_out_of_another_dataset_does_not_matter(opened, tiny_dataset):
    run = TrainConfig(dataset=DatasetConfig(root="elsewhere/other", eval_split=0.1))
    assert opened(tiny_dataset, run) == ([0, 1, 2, 3], "all of the dataset")
    assert opened(tiny_dataset) == ([0, 1, 2, 3], "all of the dataset")


def test_chosen_episodes_take_precedence(opened, tiny_dataset):
    run = TrainConfig(dataset=DatasetConfig(root=tiny_dataset, eval_split=0.3))
    assert opened(tiny_dataset, run, [1])[0] == [1]


def test_names_are_those_that_the_run_renamed_to(opened, record_tiny, tmp_path):
    record_tiny(tmp_path / "b", "observation.joints", (5, 6), np.random.default_rng(0).normal)
    run = TrainConfig(rename_map={"observation.joints": "observation.state"})
    assert opened(tmp_path / "b", run)[0] == [0, 1]
    with pytest.raises(UserError, match=r"has no observation\.state, which the policy reads"):
        opened(tmp_path / "b")


@pytest.fixture
def camera_root(tmp_path):
    """An episode with a camera of 24 by 32 pixels."""
    features = {
        "observation.state": {"dtype": "float32", "shape": (3,), "names": None},
        "observation.environment_state": {"dtype": "float32", "shape": (4,), "names": None},
        CAMERA: {"dtype": "image", "shape": (24, 32, 3), "names": ["height", "width", "channels"]},
        "action": {"dtype": "float32", "shape": (2,), "names": None},
    }
    with DatasetWriter.create(tmp_path / "camera", 10, features) as writer:
        for _ in range(4):
            sizes = {name: item["shape"] for name, item in features.items()}
            frame = {name: np.zeros(sizes[name], "f4") for name in features if name != CAMERA}
            frame[CAMERA] = np.zeros(sizes[CAMERA], np.uint8)
            writer.add_frame({**frame, "task": "look"})
        writer.save_episode()
    return tmp_path / "camera"


def test_cameras_have_the_size_of_the_run(make_policy, camera_root):
    policy = make_policy()
    small = {CAMERA: PolicyFeature(FeatureType.VISUAL, (3, 12, 16))}
    inputs = policy.config.input_features | small
    policy.config = replace(policy.config, input_features=inputs)
    config = EvaluatedDatasetConfig(root=camera_root)
    run = TrainConfig(dataset=DatasetConfig(image_size=(12, 16)))
    batch = open_recorded(config, policy, run).dataset.batch([0, 1])
    assert batch[CAMERA].shape == (2, 3, 12, 16)
    with pytest.raises(UserError, match=r"has shape \(3, 24, 32\) in .* expects \(3, 12, 16\)"):
        open_recorded(config, policy, None)


def test_another_shape_is_refused_with_both_shapes(make_policy, tiny_dataset):
    policy = make_policy()
    arm = {"action": PolicyFeature(FeatureType.ACTION, (7,))}
    policy.config = replace(policy.config, output_features=arm)
    with pytest.raises(UserError, match=r"action has shape \(2,\) in .* expects \(7,\)"):
        open_recorded(EvaluatedDatasetConfig(root=tiny_dataset), policy, None)


def test_a_folder_without_a_run_says_nothing(tmp_path):
    assert read_run(tmp_path) is None


def test_a_run_of_lerobot_says_what_it_held_out(tmp_path):
    dataset = {"repo_id": "lerobot/pusht", "root": None, "episodes": [1, 2], "eval_split": 0.5}
    document = {"dataset": dataset, "eval_freq": 20_000}
    (tmp_path / "train_config.json").write_text(json.dumps(document))
    run = read_run(tmp_path)
    assert (run.dataset.repo_id, run.dataset.episodes) == ("lerobot/pusht", [1, 2])
    assert run.dataset.eval_split == 0.5
