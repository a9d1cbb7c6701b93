"""Data that nobody has recorded."""

import pytest
import torch

from manyhands.config.commands.synthetic_data import SyntheticDataConfig
from manyhands.config.policies.act import ActConfig
from manyhands.config.policies.diffusion import DiffusionConfig
from manyhands.config.policies.smolvla import SmolVLAConfig
from manyhands.lerobot_format.names import LANGUAGE_MASK, LANGUAGE_TOKENS
from manyhands.policies.build import build_policy
from manyhands.policies.synthetic import (
    STATISTICS,
    synthetic_batch,
    synthetic_stats,
    with_synthetic_features,
)

CPU = torch.device("cpu")
SHAPES = SyntheticDataConfig(cameras=2, image_size=(32, 48), state_dim=5, action_dim=4)


def test_the_flags_say_what_there_is():
    policy = with_synthetic_features(ActConfig(), SHAPES)
    shapes = {name: feature.shape for name, feature in policy.input_features.items()}
    assert shapes == {
        "observation.state": (5,),
        "observation.images.camera_0": (3, 32, 48),
        "observation.images.camera_1": (3, 32, 48),
    }
    assert policy.output_features["action"].shape == (4,)


def test_without_flags_there_is_a_robot_of_two_arms_and_a_camera():
    policy = with_synthetic_features(ActConfig(), SyntheticDataConfig())
    image = policy.input_features["observation.images.camera_0"]
    assert image.shape == (3, 480, 640) and policy.output_features["action"].shape == (14,)


def test_without_a_camera_the_state_of_the_scene_is_seen():
    policy = with_synthetic_features(ActConfig(), SyntheticDataConfig(cameras=0))
    assert [*policy.input_features] == ["observation.state", "observation.environment_state"]
    assert policy.feature_faults() == []


def test_features_that_a_policy_has_stay_unless_flags_say_others():
    known = with_synthetic_features(ActConfig(), SHAPES)
    assert with_synthetic_features(known, SyntheticDataConfig()) is known
    other = with_synthetic_features(known, SyntheticDataConfig(cameras=0))
    assert len(other.input_features) == 2


@pytest.mark.parametrize(
    "config",
    [
        ActConfig(
            dim_model=16, n_heads=2, dim_feedforward=32, chunk_size=6, n_action_steps=6,
            pretrained_backbone_weights=None,
        ),
        DiffusionConfig(
            down_dims=(8, 16), n_groups=4, diffusion_step_embed_dim=8,
            pretrained_backbone_weights=None, crop_shape=None, horizon=8, n_action_steps=4,
        ),
    ],
    ids=["act", "diffusion"],
)  # fmt: skip
def test_policies_compute_a_loss_of_the_batch(config):
    policy = with_synthetic_features(config, SHAPES)
    batch = synthetic_batch(policy, 2, CPU)
    assert batch["observation.images.camera_0"].dtype == torch.uint8
    assert not batch["action_is_pad"].any()
    loss, _ = build_policy(policy, synthetic_stats(policy)).training_loss(batch)
    assert loss.isfinite()


def test_a_policy_that_reads_gets_words_of_the_largest_length():
    policy = with_synthetic_features(SmolVLAConfig(), SHAPES)
    batch = synthetic_batch(policy, 2, CPU)
    assert batch[LANGUAGE_TOKENS].shape == batch[LANGUAGE_MASK].shape == (2, 48)
    assert batch[LANGUAGE_MASK].all()
    assert LANGUAGE_TOKENS not in synthetic_batch(
        with_synthetic_features(ActConfig(), SHAPES), 2, CPU
    )


def test_every_feature_has_statistics_of_its_shape():
    policy = with_synthetic_features(ActConfig(), SHAPES)
    stats = synthetic_stats(policy)
    assert stats.keys() == {*policy.input_features, "action"}
    assert stats["observation.images.camera_0"]["mean"].shape == (3, 1, 1)
    assert stats["action"]["q99"].shape == (4,) and stats["action"].keys() >= STATISTICS.keys()
