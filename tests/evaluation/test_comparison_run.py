"""A comparison from its flags to its files."""

import json
import sys
from dataclasses import replace

import pytest
import torch

from manyhands.config.commands.eval import EvalCommandConfig, EvalConfig, EvaluatedPolicyConfig
from manyhands.config.sections.env import TrayEnvConfig
from manyhands.errors import UserError
from manyhands.evaluation.comparison_run import compare_files, run_comparison


@pytest.fixture
def policies(act_policy, tmp_path):
    """Two policies with different weights."""
    act_policy.save(tmp_path / "policies" / "one")
    with torch.no_grad():
        for weight in act_policy.network.parameters():
            weight.add_(0.05)
    act_policy.save(tmp_path / "policies" / "two")
    return [str(tmp_path / "policies" / name) for name in ("one", "two")]


@pytest.fixture
def config(policies, tmp_path):
    """Flags of a comparison in the built-in task."""
    return EvalCommandConfig(
        compare=policies,
        policy=EvaluatedPolicyConfig(device="cpu"),
        env=TrayEnvConfig(episode_length=12),
        eval=EvalConfig(n_episodes=5, use_async_envs=False),
        output_dir=tmp_path / "out",
        max_videos=0,
    )


def test_both_run_on_the_same_seeds_and_their_results_compare_alike_later(config, policies):
    found = run_comparison(config)
    assert list(found.names) == policies
    assert found.comparison.pairs.num_episodes == 5
    document = json.loads((config.output_dir / "comparison.json").read_text())
    assert document == found.document()
    sides = [str(config.output_dir / side) for side in ("a", "b")]
    later = compare_files(replace(config, compare=sides, env=None, output_dir=None))
    assert later.comparison == found.comparison
    assert later.output_dir is None


def test_a_policy_beside_itself_makes_no_difference(config, policies):
    found = run_comparison(replace(config, compare=[policies[0]] * 2)).comparison
    assert found.mean_rewards[0] == found.mean_rewards[1]
    assert (found.disagreements, found.pairs.p_value) == ([], 1.0)
    assert found.verdict.startswith("No difference in success could be shown")


def test_what_is_wrong_with_the_second_is_reported_before_the_first_runs(config, policies):
    with pytest.raises(UserError, match="--compare: nowhere"):
        run_comparison(replace(config, compare=[policies[0], "nowhere"]))
    assert not config.output_dir.exists()


def test_fields_of_both_policies_are_changed(config):
    changed = replace(config.policy, changes={"n_action_steps": 99})
    with pytest.raises(UserError, match=r"--policy\.n_action_steps=99 must be between"):
        run_comparison(replace(config, policy=changed))
    found = run_comparison(replace(config, policy=replace(changed, changes={"n_action_steps": 1})))
    assert found.comparison.pairs.num_episodes == 5


@pytest.mark.process
def test_two_processes_compare_alike(config, command, policies, tmp_path):
    expected = run_comparison(config).document()
    flags = [
        "--compare",
        *policies,
        "--env.type=tray",
        "--env.episode_length=12",
        "--eval.n_episodes=5",
        "--eval.use_async_envs=false",
        "--policy.device=cpu",
        "--max_videos=0",
        "--launch.num_processes=2",
        f"--output_dir={tmp_path / 'two'}",
        f"--json={tmp_path / 'two.json'}",
    ]
    printed = command.run([sys.executable, "-m", "manyhands", "eval", *flags])
    assert expected["verdict"] in printed
    assert json.loads((tmp_path / "two.json").read_text()) == expected
