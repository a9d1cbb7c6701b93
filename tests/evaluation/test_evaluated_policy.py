"""Flags over a saved policy take effect on the policy that is evaluated."""

from dataclasses import replace

import pytest
import torch

from manyhands.config.commands.eval import EvalCommandConfig, EvaluatedPolicyConfig
from manyhands.config.schema.command_line import read_flags
from manyhands.errors import ConfigError, UserError
from manyhands.evaluation.evaluated_policy import load_evaluated, with_renames
from manyhands.policies.build import build_policy

STATE = "observation.state"


@pytest.fixture(scope="module")
def folder(act_policy, tmp_path_factory):
    folder = tmp_path_factory.mktemp("policies") / "act"
    act_policy.save(folder)
    return folder


def evaluated(folder, *flags, **settings):
    changes = read_flags([f"--policy.{flag}" for flag in flags]).tree.get("policy", {})
    policy = EvaluatedPolicyConfig(path=str(folder), changes=changes)
    return load_evaluated(folder, EvalCommandConfig(policy=policy, **settings))


def test_a_field_is_changed_and_the_weights_are_not(folder, act_policy):
    policy = evaluated(folder, "n_action_steps=1", "temporal_ensemble_coeff=0.01")
    changes = {"n_action_steps": 1, "temporal_ensemble_coeff": 0.01}
    assert vars(policy.config) == vars(evaluated(folder).config) | changes
    for name, weight in policy.network.state_dict().items():
        assert torch.equal(weight, act_policy.network.state_dict()[name])


def test_a_field_that_does_not_fit_the_weights_is_refused(folder):
    with pytest.raises(ConfigError, match=r"--policy\.dim_model=32 cannot change"):
        evaluated(folder, "dim_model=32")


def test_the_way_of_sampling_is_changed(make_policy, tmp_path):
    saved = make_policy("diffusion")
    saved.save(tmp_path)
    policy = evaluated(tmp_path, "num_inference_steps=2", "noise_scheduler_type=DDIM")
    config = replace(saved.config, num_inference_steps=2, noise_scheduler_type="DDIM")
    expected = build_policy(config, stats={}).eval()
    expected.network.load_state_dict(saved.network.state_dict())
    inputs = saved.config.input_features
    observation = {name: torch.ones(1, 2, *item.shape) for name, item in inputs.items()}
    chunks = []
    for each in (policy, expected, saved):
        torch.manual_seed(0)
        chunks.append(each.predict_action_chunk(observation))
    assert torch.equal(chunks[0], chunks[1])
    assert not torch.equal(chunks[0], chunks[2])


def test_an_input_is_read_by_another_name(folder):
    policy = evaluated(folder, rename_map={"joints": STATE})
    assert policy.arriving_names[STATE] == "joints"
    policy.save(folder.with_name("renamed"))
    again = evaluated(folder.with_name("renamed"), rename_map={"arm": "joints"})
    assert again.processors.rename_map == {"arm": STATE}


def test_renames_to_what_the_policy_does_not_read_are_refused(folder):
    with pytest.raises(UserError, match=r"--rename_map names observation\.top, which .* reads"):
        evaluated(folder, rename_map={"a": "observation.top"})
    with pytest.raises(UserError, match=r"--rename_map gives observation\.state several names"):
        evaluated(folder, rename_map={"a": STATE, "b": STATE})


def test_an_input_loses_its_earlier_name():
    assert with_renames({"a": "x", "b": "y"}, {"c": "x"}) == {"b": "y", "c": "x"}
