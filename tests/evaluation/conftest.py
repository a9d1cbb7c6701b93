"""Tiny policies, and an environment that rewards every step otherwise; see toy_worlds.py."""

from dataclasses import replace

import pytest
import torch

from manyhands.config.commands.eval import EvalCommandConfig, EvalConfig, EvaluatedPolicyConfig
from manyhands.config.policies.act import ActConfig
from manyhands.config.policies.diffusion import DiffusionConfig
from manyhands.config.policies.features import FeatureType, PolicyFeature
from manyhands.config.sections.env import GymEnvConfig, TrayEnvConfig
from manyhands.data.dataset import open_dataset
from manyhands.data.policy_reading import windows_of
from manyhands.evaluation.run import run_evaluation
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


RECORDED = {
    "input_features": {
        "observation.state": PolicyFeature(FeatureType.STATE, (3,)),
        "observation.environment_state": PolicyFeature(FeatureType.ENV, (4,)),
    },
    "output_features": {"action": PolicyFeature(FeatureType.ACTION, (2,))},
}


@pytest.fixture(scope="session")
def make_policy():
    """Makes a policy that reads the tiny dataset, with random weights."""

    def make(kind="act"):
        torch.manual_seed(0)
        return build_policy(replace(CONFIGS[kind], **RECORDED), stats={}).eval()

    return make


@pytest.fixture(params=["act", "diffusion"])
def recorded_policy(request, make_policy):
    """A policy of every kind that reads the tiny dataset."""
    return make_policy(request.param)


@pytest.fixture(scope="session")
def open_for():
    """Opens a dataset with the windows of a policy."""

    def opened(policy, root, episodes=None):
        return open_dataset(root=root, episodes=episodes, windows=windows_of(policy.config))

    return opened


@pytest.fixture(scope="session")
def config_of():
    """Makes configs of evaluations of five short episodes."""

    def make(run, output_dir, env=None, **settings):
        return EvalCommandConfig(
            policy=EvaluatedPolicyConfig(path=str(run), device="cpu"),
            env=env or TrayEnvConfig(episode_length=6),
            eval=EvalConfig(n_episodes=5, use_async_envs=False),
            output_dir=output_dir,
            **settings,
        )

    return make


@pytest.fixture(scope="module")
def evaluation(tray_run, config_of, tmp_path_factory):
    """A finished evaluation of seeds 20 to 24 with three videos."""
    folder = tmp_path_factory.mktemp("evaluation") / "results" / "first"
    return run_evaluation(config_of(tray_run, folder, seed=20, max_videos=3))
