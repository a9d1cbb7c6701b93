"""ACT's configuration."""

import pytest

from manyhands.config.policies.act import ActConfig
from manyhands.config.policies.base import NOT_LEROBOTS
from manyhands.config.policies.features import NormalizationMode
from manyhands.config.schema.decoding import encode

LEROBOT_ORDER = """
n_obs_steps input_features output_features device use_amp use_peft push_to_hub repo_id private tags
license pretrained_path pretrained_revision chunk_size n_action_steps normalization_mapping
vision_backbone pretrained_backbone_weights replace_final_stride_with_dilation pre_norm dim_model
n_heads dim_feedforward feedforward_activation n_encoder_layers n_decoder_layers use_vae latent_dim
n_vae_encoder_layers temporal_ensemble_coeff dropout kl_weight optimizer_lr optimizer_weight_decay
optimizer_lr_backbone
"""


def test_fields_stand_in_lerobots_order():
    assert list(encode(ActConfig(), without=NOT_LEROBOTS)) == ["type", *LEROBOT_ORDER.split()]


def test_defaults_are_lerobots_but_nothing_is_pushed():
    config = ActConfig()
    assert (config.chunk_size, config.dim_model, config.kl_weight) == (100, 512, 10.0)
    assert set(config.normalization_mapping.values()) == {NormalizationMode.MEAN_STD}
    assert config.push_to_hub is False


def test_the_window_is_the_chunk():
    assert ActConfig(chunk_size=3).action_offsets == [0, 1, 2]
    assert ActConfig().observation_offsets is None


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"n_obs_steps": 2}, "n_obs_steps"),
        ({"chunk_size": 0, "n_action_steps": 1}, "chunk_size"),
        ({"n_action_steps": 101}, "n_action_steps"),
        ({"temporal_ensemble_coeff": 0.1}, "temporal_ensemble_coeff"),
        ({"vision_backbone": "vgg16"}, "vision_backbone"),
        ({"replace_final_stride_with_dilation": 1}, "replace_final_stride_with_dilation"),
        ({"feedforward_activation": "glu"}, "feedforward_activation"),
        ({"dim_model": 30, "n_heads": 3}, "dim_model"),
        ({"n_heads": 7}, "n_heads"),
        ({"dropout": 1.0}, "dropout"),
    ],
)
def test_what_no_network_can_have_is_named(change, named):
    (fault,) = ActConfig(**change).faults()
    assert f"--policy.{named}" in fault
