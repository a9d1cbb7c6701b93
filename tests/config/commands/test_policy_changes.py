"""Flags over a saved policy change what predictions depend on, or are refused by name."""

import pytest

from manyhands.config.commands.eval import EvalCommandConfig, EvaluatedPolicyConfig
from manyhands.config.commands.policy_changes import changed_policy
from manyhands.config.policies.act import ActConfig
from manyhands.config.policies.diffusion import DiffusionConfig
from manyhands.config.policies.features import FeatureType, PolicyFeature
from manyhands.config.policies.registry import POLICY_TYPES
from manyhands.config.schema.command_line import read_flags
from manyhands.config.schema.decoding import Decoder
from manyhands.errors import ConfigError

SAVED = ActConfig(
    chunk_size=20,
    n_action_steps=20,
    input_features={"observation.state": PolicyFeature(FeatureType.STATE, (4,))},
    output_features={"action": PolicyFeature(FeatureType.ACTION, (3,))},
)


def changes(*flags):
    return read_flags([f"--policy.{flag}" for flag in flags]).tree.get("policy", {})


def test_flags_change_their_fields_alone():
    found = changed_policy(SAVED, changes("n_action_steps=5", "use_amp=true"))
    assert vars(found) == vars(SAVED) | {"n_action_steps": 5, "use_amp": True}
    sampled = changed_policy(
        DiffusionConfig(), changes("num_inference_steps=10", "noise_scheduler_type=DDIM")
    )
    assert (sampled.num_inference_steps, sampled.noise_scheduler_type) == (10, "DDIM")
    assert changed_policy(SAVED, {}) is SAVED


def test_what_a_policy_has_already_may_be_said():
    assert changed_policy(SAVED, changes("type=act", "chunk_size=20", "kl_weight=10")) == SAVED


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["chunk_size=30"], "--policy.chunk_size=30 cannot change a trained policy, which has 20"),
        (["optimizer_lr=1e-3"], "--policy.optimizer_lr=1e-3 cannot change a trained policy"),
        (["type=diffusion"], "--policy.type=diffusion cannot change a trained policy, which has"),
        (["n_action_steps=30"], "--policy.n_action_steps=30 must be between 1 and"),
        (["temporal_ensemble_coeff=0.1"], "needs --policy.n_action_steps=1, not 20"),
        (["num_inference_steps=3"], "--policy.num_inference_steps is not a flag of the chosen"),
        (["use_amp=maybe"], "--policy.use_amp=maybe: expects"),
    ],
)
def test_what_cannot_change_is_refused_by_name(flags, told):
    with pytest.raises(ConfigError) as caught:
        changed_policy(SAVED, changes(*flags))
    assert str(caught.value).startswith(told) or told in str(caught.value)
    assert len(caught.value.faults) == 1


def test_flags_of_the_command_and_of_the_policy_are_told_apart():
    section = changes("path=run", "device=cpu", "type=act", "n_action_steps=5")
    found = Decoder(EvalCommandConfig).section(EvaluatedPolicyConfig, section, "policy.")
    assert (found.path, found.device) == ("run", "cpu")
    assert found.changes == {"type": "act", "n_action_steps": "5"}


@pytest.mark.parametrize("kind", ["act", "diffusion", "smolvla"])
def test_what_predictions_depend_on_are_fields(kind):
    config = POLICY_TYPES[kind]
    assert {*config.prediction_fields} <= config.__dataclass_fields__.keys()
    assert "use_amp" in config.prediction_fields
