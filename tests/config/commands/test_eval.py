"""The flags of `manyhands eval`, and files that are looked at before episodes are run."""

import pytest

from manyhands.config.commands.eval import EvalCommandConfig, EvalConfig, EvaluatedPolicyConfig
from manyhands.config.schema.decoding import flags_of
from manyhands.config.sections.env import PushtEnvConfig, TrayEnvConfig
from manyhands.config.train import ProcessesConfig

POLICY = EvaluatedPolicyConfig(path="outputs/pick")


def faults(**settings):
    return EvalCommandConfig(**({"policy": POLICY, "env": TrayEnvConfig()} | settings)).faults()


def test_the_flags_are_these():
    names = {flag.name for flag in flags_of(EvalCommandConfig) if not flag.name.startswith("env")}
    assert names == {
        *("policy.path", "policy.revision", "policy.device", "policy.use_ema"),
        *("eval.n_episodes", "eval.batch_size", "eval.use_async_envs", "eval.timeout_s"),
        "eval.expected_success",
        *("dataset.root", "dataset.repo_id", "dataset.revision", "dataset.episodes"),
        *("open_loop.stride", "open_loop.max_samples", "compare"),
        *("seed", "output_dir", "max_videos", "json", "launch.num_processes"),
        *("rename_map", "job_name"),
    }


def test_defaults_are_those_of_lerobot():
    config = EvalCommandConfig()
    assert (config.seed, config.eval.n_episodes, config.max_videos) == (1000, 50, 10)
    assert (config.eval.use_async_envs, config.eval.timeout_s) == (True, 120.0)


def test_a_policy_and_an_environment_are_needed():
    assert [fault.split(".")[0] for fault in EvalCommandConfig().faults()] == [
        "no policy",
        "no environment",
    ]
    assert faults() == []


@pytest.mark.parametrize(
    ("settings", "flag"),
    [
        ({"seed": -1}, "--seed=-1"),
        ({"max_videos": -1}, "--max_videos=-1"),
        ({"launch": ProcessesConfig(num_processes=0)}, "--launch.num_processes=0"),
        ({"eval": EvalConfig(n_episodes=0)}, "--eval.n_episodes=0"),
        ({"eval": EvalConfig(batch_size=-1)}, "--eval.batch_size=-1"),
        ({"eval": EvalConfig(timeout_s=0.0)}, "--eval.timeout_s=0.0"),
        ({"eval": EvalConfig(timeout_s=float("nan"))}, "--eval.timeout_s=nan"),
        ({"eval": EvalConfig(expected_success=(9.0, 1.0))}, "--eval.expected_success=[9,1]"),
        ({"env": PushtEnvConfig(task="PushX-v0")}, "--env.task=PushX-v0"),
    ],
)
def test_a_fault_names_its_flag(settings, flag):
    (fault,) = faults(**settings)
    assert fault.startswith(flag)


def test_one_policy_is_compared_with_an_expectation_and_two_are_not():
    expecting = EvalConfig(expected_success=(59.5, 67.9))
    assert faults(eval=expecting) == []
    (fault,) = faults(policy=EvaluatedPolicyConfig(), compare=["a", "b"], eval=expecting)
    assert fault.startswith("--eval.expected_success is for one policy")


def test_flags_of_runs_have_no_effect_on_results_that_are_compared(tmp_path):
    for name in ("a.json", "b.json"):
        (tmp_path / name).touch()
    compare = [str(tmp_path / name) for name in ("a.json", "b.json")]
    policy = EvaluatedPolicyConfig(changes={"use_amp": "true"})
    found = faults(policy=policy, compare=compare, rename_map={"a": "b"}, job_name="night")
    assert [fault.partition(" has no effect")[0] for fault in found] == [
        *("--env", "--rename_map", "--job_name", "--policy.use_amp"),
    ]


def test_a_file_for_results_must_be_writable(tmp_path):
    assert faults(json=tmp_path / "a.json") == []
    (missing,) = faults(json=tmp_path / "none" / "a.json")
    assert (
        missing
        == f"--json={tmp_path}/none/a.json: folder {tmp_path}/none does not exist. Create it: "
        + (f"mkdir -p {tmp_path}/none")
    )
    (folder,) = faults(json=tmp_path)
    assert folder == f"--json={tmp_path} is a folder. Name a file in it, as --json={tmp_path}/NAME"


def test_a_folder_for_results_must_be_new_and_writable(tmp_path):
    assert faults(output_dir=tmp_path) == faults(output_dir=tmp_path / "a" / "b") == []
    (tmp_path / "file").touch()
    (fault,) = faults(output_dir=tmp_path / "file" / "out")
    assert "is a file, not a folder" in fault and fault.startswith("--output_dir=")
    (tmp_path / "eval_info.json").touch()
    (fault,) = faults(output_dir=tmp_path)
    assert "already contains an evaluation" in fault


def test_permissions_are_looked_at(tmp_path, as_nobody):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0)
    with as_nobody():
        found = faults(json=closed / "a.json", output_dir=closed / "out")
    assert len(found) == 2
    for fault, flag in zip(found, ("--json=", "--output_dir="), strict=True):
        assert flag in fault and "Permission denied" in fault
