"""Diffusion Policy's configuration."""

import dataclasses
import json

import pytest

from manyhands.config.diffusion import DiffusionConfig
from manyhands.config.optim import AdamConfig, DiffuserSchedulerConfig


def test_fields_stand_in_lerobots_order_with_its_defaults(shared):
    folder = shared / "fixtures/policies/diffusion_ddpm/pretrained_model"
    stored = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    ours = [item.name for item in dataclasses.fields(DiffusionConfig)]
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
        ({"kernel_size": 4}, "kernel_size"),
        ({"diffusion_step_embed_dim": 3}, "diffusion_step_embed_dim"),
        ({"noise_scheduler_type": "DPM"}, "noise_scheduler_type"),
        ({"prediction_type": "v"}, "prediction_type"),
        ({"beta_schedule": "cubic"}, "beta_schedule"),
        ({"num_inference_steps": 101}, "num_inference_steps"),
        ({"use_group_norm": True}, "use_group_norm"),
        ({"compile_model": True}, "compile_model"),
    ],
)
def test_what_no_network_can_have_is_named(change, named):
    (fault,) = DiffusionConfig(**change).faults()
    assert fault.startswith(f"--policy.{named}")
