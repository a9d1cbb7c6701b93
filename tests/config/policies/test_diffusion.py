"""Diffusion Policy's configuration."""

import dataclasses
import json
from pathlib import Path

import pytest

from manyhands.config.policies.base import NOT_LEROBOTS
from manyhands.config.policies.diffusion import DiffusionConfig
from manyhands.config.policies.features import FeatureType, PolicyFeature
from manyhands.config.sections.optim import AdamConfig, DiffuserSchedulerConfig

GROUPED = {"use_group_norm": True, "pretrained_backbone_weights": None}


def test_fields_stand_in_lerobots_order_with_its_defaults(shared):
    folder = shared / "fixtures/policies/diffusion_ddpm/pretrained_model"
    stored = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    fields = dataclasses.fields(DiffusionConfig)
    ours = [item.name for item in fields if not any(mark in item.metadata for mark in NOT_LEROBOTS)]
    assert [name for name in stored if name != "type"] == ours
    config = DiffusionConfig()
    assert (config.horizon, config.n_obs_steps, config.drop_n_last_frames) == (64, 2, 7)


def test_windows_begin_with_the_first_observation():
    config = DiffusionConfig(n_obs_steps=3, horizon=8, n_action_steps=4)
    assert config.observation_offsets == [-2, -1, 0]
    assert config.action_offsets == [-2, -1, 0, 1, 2, 3, 4, 5]


def test_presets_are_lerobots():
    config = DiffusionConfig(optimizer_lr=3e-4)
    assert config.optimizer_preset() == AdamConfig(
        lr=3e-4, betas=(0.95, 0.999), eps=1e-8, weight_decay=1e-6
    )
    assert config.scheduler_preset() == DiffuserSchedulerConfig(name="cosine", num_warmup_steps=500)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"n_obs_steps": 0}, "n_obs_steps"),
        ({"horizon": 60}, "horizon"),
        ({"n_action_steps": 64}, "n_action_steps"),
        ({"drop_n_last_frames": -1}, "drop_n_last_frames"),
        ({"vision_backbone": "vgg16"}, "vision_backbone"),
        ({"resize_shape": (0, 4)}, "resize_shape"),
        ({"crop_shape": (4, -1)}, "crop_shape"),
        ({"crop_ratio": 0.0}, "crop_ratio"),
        ({"down_dims": (12, 24, 48)}, "down_dims"),
        ({"down_dims": (12, 24, 48), "n_groups": 12}, "down_dims"),
        ({"down_dims": ()}, "down_dims"),
        ({"kernel_size": 4}, "kernel_size"),
        ({"kernel_size": -1}, "kernel_size"),
        ({"diffusion_step_embed_dim": 3}, "diffusion_step_embed_dim"),
        ({"noise_scheduler_type": "DPM"}, "noise_scheduler_type"),
        ({"prediction_type": "v"}, "prediction_type"),
        ({"beta_schedule": "cubic"}, "beta_schedule"),
        ({"beta_schedule": "sigmoid", "noise_scheduler_type": "DDIM"}, "beta_schedule"),
        ({"beta_schedule": "laplace", "noise_scheduler_type": "DDIM"}, "beta_schedule"),
        ({"beta_schedule": "linear", "beta_start": 0.0}, "beta_start"),
        ({"beta_schedule": "scaled_linear", "beta_end": 1.0}, "beta_start"),
        ({"beta_schedule": "sigmoid", "beta_start": 0.1}, "beta_start"),
        ({"clip_sample_range": 0.0}, "clip_sample_range"),
        ({"num_inference_steps": 101}, "num_inference_steps"),
        ({"num_inference_steps": 0}, "num_inference_steps"),
        ({"crop_per_sample": True}, "crop_per_sample"),
        (
            {"crop_per_sample": True, "crop_shape": (84, 84), "crop_is_random": False},
            "crop_per_sample",
        ),
        ({"use_group_norm": True}, "use_group_norm"),
        ({**GROUPED, "backbone_weights": Path("resnet18.pth")}, "use_group_norm"),
        ({"compile_model": True}, "compile_model"),
    ],
)
def test_what_no_network_can_have_is_named(change, named):
    (fault,) = DiffusionConfig(**change).faults()
    assert fault.startswith(f"--policy.{named}")


def test_an_encoder_of_group_norms_starts_from_no_weights():
    assert DiffusionConfig(**GROUPED).faults() == []


@pytest.mark.parametrize("schedule", ["sigmoid", "laplace", "squaredcos_cap_v2"])
def test_ddpm_has_more_noise_schedules(schedule):
    assert DiffusionConfig(beta_schedule=schedule).faults() == []


def test_a_schedule_with_its_own_curve_has_no_use_for_betas():
    assert DiffusionConfig(beta_start=0.0, beta_end=7.0).faults() == []


def test_nothing_is_clipped_where_nothing_is_to_be_clipped():
    assert DiffusionConfig(clip_sample=False, clip_sample_range=0.0).faults() == []


@pytest.mark.parametrize(
    ("values", "crop"),
    [
        ({"crop_shape": (84, 84)}, (84, 84)),
        ({"crop_shape": (84, 84), "crop_ratio": 0.5}, (84, 84)),
        ({"resize_shape": (48, 72), "crop_ratio": 0.9}, (43, 64)),
        ({"resize_shape": (48, 72), "crop_ratio": 0.9, "crop_shape": (9, 9)}, (43, 64)),
        ({"resize_shape": (48, 72), "crop_shape": (9, 9)}, None),
        ({}, None),
    ],
)
def test_the_crop_follows_from_the_resized_shape(values, crop):
    config = DiffusionConfig(**values)
    assert config.crop_shape == crop
    assert dataclasses.replace(config, horizon=8, n_action_steps=4).crop_shape == crop


def test_a_share_too_small_to_see_is_refused():
    (fault,) = DiffusionConfig(resize_shape=(48, 72), crop_ratio=0.001).faults()
    assert fault.startswith("--policy.crop_shape=(0, 0)")


STATE = {"observation.state": PolicyFeature(FeatureType.STATE, (6,))}
ACTION = {"action": PolicyFeature(FeatureType.ACTION, (4,))}


def seeing(*shapes, **values):
    cameras = {
        f"observation.images.{number}": PolicyFeature(FeatureType.VISUAL, shape)
        for number, shape in enumerate(shapes)
    }
    values = {"input_features": {**STATE, **cameras}, "output_features": ACTION} | values
    return DiffusionConfig(**values)


@pytest.mark.parametrize(
    ("config", "told"),
    [
        (seeing((3, 8, 8), output_features={}), "needs the feature action"),
        (seeing((3, 8, 8), (3, 8, 9)), "must have the same shape"),
        (seeing((3, 8, 8), crop_shape=(8, 9)), "crop_shape=(8, 9) does not fit"),
        (seeing((3, 8, 8), crop_shape=(9, 8)), "crop_shape=(9, 8) does not fit"),
    ],
)
def test_features_that_cannot_work_are_named(config, told):
    (fault,) = config.feature_faults()
    assert told in fault


@pytest.mark.parametrize(
    "config",
    [
        seeing((3, 8, 8), (3, 8, 8), crop_shape=(8, 8)),
        seeing((3, 8, 8), resize_shape=(48, 72), crop_ratio=0.5),
    ],
)
def test_crops_that_fit_are_no_fault(config):
    assert config.feature_faults() == []


def test_the_state_of_the_robot_is_needed():
    camera = {"observation.images.top": PolicyFeature(FeatureType.VISUAL, (3, 8, 8))}
    (fault,) = DiffusionConfig(input_features=camera, output_features=ACTION).feature_faults()
    assert "needs the feature observation.state" in fault


def test_steps_of_acting_are_those_of_training_unless_told():
    assert DiffusionConfig(num_train_timesteps=50).num_denoising_steps == 50
    assert DiffusionConfig(num_inference_steps=7).num_denoising_steps == 7
    assert DiffusionConfig(n_action_steps=5).num_executed_actions == 5
