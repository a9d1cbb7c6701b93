"""What a policy has of a dataset."""

import pytest

from manyhands.config.policies.act import ActConfig
from manyhands.config.policies.features import FeatureType, PolicyFeature
from manyhands.errors import ConfigError, DatasetError
from manyhands.lerobot_format.dataset.features import Feature
from manyhands.lerobot_format.dataset.info import read_info
from manyhands.training.setup.features import proposed_names, unread_cameras, with_features

AXES = ["height", "width", "channels"]
CAMERA = Feature("video", (48, 64, 3), AXES)
DEPTH = Feature("video", (48, 64, 1), AXES, {"is_depth_map": True})
OPENPI = {
    "state": Feature("float32", (8,)),
    "actions": Feature("float32", (7,)),
    "image": CAMERA,
    "wrist_image": CAMERA,
    "timestamp": Feature("float32", (1,)),
}


@pytest.fixture
def features(tiny_dataset):
    return read_info(tiny_dataset).features


def test_a_policy_takes_all_features_of_the_dataset_root(features):
    policy = with_features(ActConfig(), features)
    assert list(policy.input_features) == [
        "observation.state",
        "observation.environment_state",
        "observation.velocity",
    ]
    assert policy.output_features == {"action": PolicyFeature(FeatureType.ACTION, (2,))}


def test_other_output_features_than_the_datasets_are_told_with_both_sizes(features):
    asked = ActConfig(output_features={"action": PolicyFeature(FeatureType.ACTION, (9,))})
    with pytest.raises(ConfigError, match=r"predicts action.*\[9\].*output_features.*\[2\]"):
        with_features(asked, features)


def test_a_feature_that_the_dataset_has_not_or_otherwise_is_told_with_what_it_has(features):
    asked = {
        "observation.state": PolicyFeature(FeatureType.STATE, (7,)),
        "observation.depth": PolicyFeature(FeatureType.STATE, (1,)),
    }
    with pytest.raises(ConfigError) as caught:
        with_features(ActConfig(input_features=asked), features)
    assert "[7]" in caught.value.faults[0]
    assert "[3]" in caught.value.faults[0]
    assert "observation.velocity" in caught.value.faults[1]


def test_features_named_otherwise_are_refused_with_the_flag_that_renames_them():
    with pytest.raises(DatasetError) as caught:
        with_features(ActConfig(), OPENPI)
    told = str(caught.value)
    assert "no feature `action`; it has state, actions, image, wrist_image" in told
    assert (
        """--rename_map='{"state": "observation.state", "actions": "action", """
        """"image": "observation.images.image", "wrist_image": "observation.images.wrist_image"}'"""
    ) in told


def test_the_proposal_makes_the_dataset_fit():
    renamed = {proposed_names(OPENPI).get(key, key): each for key, each in OPENPI.items()}
    policy = with_features(ActConfig(), renamed)
    assert list(policy.input_features) == [
        "observation.state",
        "observation.images.image",
        "observation.images.wrist_image",
    ]


def test_a_camera_that_a_policy_knows_by_another_name_is_told_with_the_flag():
    features = {"action": Feature("float32", (2,)), "observation.images.top": CAMERA}
    asked = {"observation.images.camera1": PolicyFeature(FeatureType.VISUAL, (3, 48, 64))}
    with pytest.raises(ConfigError) as caught:
        with_features(ActConfig(input_features=asked), features)
    expected = """--rename_map='{"observation.images.top": "observation.images.camera1"}'"""
    assert expected in str(caught.value)


def test_cameras_nobody_reads_are_told():
    features = {
        "action": Feature("float32", (2,)),
        "observation.state": Feature("float32", (2,)),
        "observation.environment_state": Feature("float32", (2,)),
        "observation.note": Feature("string", (1,)),
        "observation.images.depth": DEPTH,
        "image": CAMERA,
    }
    policy = with_features(ActConfig(), features)
    assert list(policy.input_features) == ["observation.state", "observation.environment_state"]
    depth, foreign = unread_cameras(policy, features)
    assert "observation.images.depth" in depth
    assert """--rename_map='{"image": "observation.images.image"}'""" in foreign
