"""Absurd sizes are refused by the flag that sets them, and usual ones pass."""

from dataclasses import replace

import pytest

from manyhands.config.check import config_faults
from manyhands.config.policies import size_limits
from manyhands.config.policies.act import ActConfig
from manyhands.config.policies.diffusion import DiffusionConfig
from manyhands.config.policies.features import FeatureType, PolicyFeature
from manyhands.config.policies.registry import OWN
from manyhands.config.policies.size_limits import LIMITS, size_faults
from manyhands.config.policies.smolvla import SmolVLAConfig
from manyhands.config.train import TrainConfig


@pytest.mark.parametrize("config", OWN)
def test_usual_sizes_pass(config):
    assert size_faults(config()) == []


def test_every_limit_belongs_to_a_field():
    names = {name for config in OWN for name in vars(config())}
    assert not LIMITS.keys() - names


@pytest.mark.parametrize(
    ("config", "told"),
    [
        (ActConfig(dim_model=10**9), "--policy.dim_model=1000000000 must be at most"),
        (ActConfig(chunk_size=10**12), "--policy.chunk_size=1000000000000 must be"),
        (ActConfig(n_encoder_layers=10**6), "--policy.n_encoder_layers=1000000 must be"),
        (DiffusionConfig(down_dims=(8,) * 10**6), "--policy.down_dims has 1000000 entries"),
        (DiffusionConfig(horizon=2**62), "--policy.horizon="),
        (DiffusionConfig(n_obs_steps=2**62), "--policy.n_obs_steps="),
        (SmolVLAConfig(empty_cameras=10**9), "--policy.empty_cameras=1000000000 must be"),
        (SmolVLAConfig(expert_width_multiplier=float("nan")), "--policy.expert_width_multiplier"),
    ],
)
def test_an_absurd_size_is_refused_before_anything_else(config, told):
    (fault,) = size_faults(config)
    assert fault.startswith(told)
    named = [each for each in config_faults(TrainConfig(policy=config)) if "--policy" in each]
    assert named == [fault]


@pytest.mark.parametrize(
    ("config", "flag"),
    [
        (ActConfig(dim_model=65_536, dim_feedforward=65_536, n_encoder_layers=1000), "dim_model"),
        (DiffusionConfig(down_dims=(65_536,) * 16), "down_dims"),
        (SmolVLAConfig(expert_width_multiplier=1000.0, num_expert_layers=1000), "num_expert"),
    ],
)
def test_weights_that_memory_cannot_hold_are_refused(monkeypatch, config, flag):
    monkeypatch.setattr(size_limits, "total_memory", lambda: 2**37)
    (fault,) = size_faults(config)
    assert "this machine has 128.0 GiB of memory" in fault and f"--policy.{flag}" in fault
    monkeypatch.setattr(size_limits, "total_memory", lambda: 2**60)
    assert size_faults(config) == []


@pytest.mark.parametrize("shape", [(2**40,), (3, 60_000, 60_000)])
def test_an_absurd_shape_of_a_feature_is_refused(shape):
    features = {"observation.x": PolicyFeature(FeatureType.STATE, shape)}
    (fault,) = size_faults(ActConfig(input_features=features))
    assert fault.startswith("--policy.input_features: the shape")


def test_absurdly_many_features_are_refused():
    feature = PolicyFeature(FeatureType.STATE, (1,))
    config = replace(ActConfig(), input_features={str(n): feature for n in range(1000)})
    assert "--policy.input_features has 1000 entries" in size_faults(config)[0]
