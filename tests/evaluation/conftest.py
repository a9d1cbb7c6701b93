"""Tiny policies, and an environment that rewards every step otherwise; see toy_worlds.py."""

import pytest
import torch

from manyhands.config.policies.act import ActConfig
from manyhands.config.policies.diffusion import DiffusionConfig
from manyhands.config.policies.features import FeatureType, PolicyFeature
from manyhands.config.sections.env import GymEnvConfig
from manyhands.policies.build import build_policy

FEATURES = {
    "input_features": {
        "observation.state": PolicyFeature(FeatureType.STATE, (4,)),
        "observation.environment_state": PolicyFeature(FeatureType.ENV, (4,)),
    },
    "output_features": {"action": PolicyFeature(FeatureType.ACTION, (3,))},
}
ACT = ActConfig(
    chunk_size=6,
    n_action_steps=4,
    dim_model=16,
    n_heads=2,
    dim_feedforward=32,
    n_encoder_layers=1,
    n_vae_encoder_layers=1,
    latent_dim=4,
    **FEATURES,
)
DIFFUSION = DiffusionConfig(
    horizon=8,
    n_action_steps=4,
    down_dims=(8, 16),
    diffusion_step_embed_dim=8,
    n_groups=2,
    num_inference_steps=3,
    **FEATURES,
)
CONFIGS = {
    "act": ACT,
    "act-ensemble": ActConfig(
        **{**vars(ACT), "n_action_steps": 1, "temporal_ensemble_coeff": 0.01}
    ),
    "diffusion": DIFFUSION,
}


@pytest.fixture(scope="module", params=list(CONFIGS))
def policy(request):
    """A policy of every way to act, with random weights."""
    torch.manual_seed(0)
    return build_policy(CONFIGS[request.param], stats={}).eval()


@pytest.fixture(scope="module")
def act_policy():
    """An ACT with random weights."""
    torch.manual_seed(0)
    return build_policy(ACT, stats={}).eval()


@pytest.fixture(scope="session")
def point_env():
    """Makes configs of an environment in which every action counts."""
    pytest.importorskip("gymnasium", reason="pip install 'manyhands[sim]'")

    def make(episode_length=14, **arguments):
        return GymEnvConfig(
            task="toys/Point-v0",
            package="toy_worlds",
            episode_length=episode_length,
            observation_keys={"observation.environment_state": "world/goal"},
            gym_kwargs=arguments,
        )

    return make
