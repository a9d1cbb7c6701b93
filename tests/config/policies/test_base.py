"""What all policies have."""

from manyhands.config.policies.act import ActConfig
from manyhands.config.policies.base import visual_features
from manyhands.config.policies.diffusion import DiffusionConfig
from manyhands.config.policies.features import FeatureType, PolicyFeature


def test_cameras_keep_their_order():
    camera = PolicyFeature(FeatureType.VISUAL, (3, 8, 8))
    state = PolicyFeature(FeatureType.STATE, (2,))
    config = ActConfig(input_features={"b": camera, "observation.state": state, "a": camera})
    assert visual_features(config) == ["b", "a"]


def test_only_policies_that_say_so_leave_the_last_frames_out():
    assert ActConfig().num_dropped_frames == 0
    assert DiffusionConfig(drop_n_last_frames=3).num_dropped_frames == 3
