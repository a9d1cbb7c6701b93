"""Evaluation during training."""

import json
import signal
import time
from typing import Any

import numpy as np
import pytest
import torch

from manyhands.config.commands.eval import EvalCommandConfig, EvaluatedPolicyConfig
from manyhands.config.resolve import read_train_config
from manyhands.config.sections.env import TrayEnvConfig
from manyhands.config.sections.eval import EvalConfig
from manyhands.errors import UserError
from manyhands.evaluation.run import run_evaluation
from manyhands.launch.outcome import Ending
from manyhands.sim.tray.environment import TrayEnvironment
from manyhands.stop import StopSignal
from manyhands.training.evaluation import Rollouts
from manyhands.training.evaluation_scores import SUCCESS
from manyhands.training.start import run_training

LENGTH = 4
EVALUATION = ("--env.type=tray", f"--env.episode_length={LENGTH}", "--eval.n_episodes=5")
EVALUATION += ("--policy.n_action_steps=2",)  # Episodes of two chunks
TIMEOUT_S = 15
IN_PROCESS = "--eval.use_async_envs=false"
STEPS = ("--steps=4", "--log_freq=1", "--save_freq=2", "--batch_size=6")


def train(argv: list[str], stop: StopSignal | None = None) -> Ending:
    return run_training(read_train_config(argv), stop=stop)


def scores(row: dict[str, Any]) -> dict[str, float]:
    """What an evaluation adds to a row, but for its time."""
    return {name: row[name] for name in row if name.startswith("eval_") and name != "eval_s"}


def assert_same_run(expected: dict[int, dict[str, Any]], found: dict[int, dict[str, Any]]) -> None:
    """Losses and scores of all logged steps are equal."""
    assert found.keys() == expected.keys()
    for step, row in expected.items():
        assert found[step]["loss"] == row["loss"]
        assert scores(found[step]) == scores(row)


def test_rows_logs_and_files_tell_what_the_eval_command_finds(tray_argv, tmp_path, metrics):
    run_dir = tmp_path / "run"
    flags = (*EVALUATION, *STEPS, "--env_eval_freq=3", "--ema.enable=true", IN_PROCESS)
    train(tray_argv(run_dir, *flags))
    rows = metrics(run_dir)
    assert {step for step, row in rows.items() if SUCCESS in row} == {3, 4}
    found = run_evaluation(
        EvalCommandConfig(
            policy=EvaluatedPolicyConfig(path=str(run_dir), device="cpu"),
            env=TrayEnvConfig(episode_length=LENGTH),
            eval=EvalConfig(n_episodes=5, use_async_envs=False),
            output_dir=tmp_path / "eval",
            max_videos=4,
        )
    )
    assert found is not None and found.policy_folder.name == "pretrained_model_ema"
    here, there = (
        json.loads((folder / "eval_info.json").read_text())
        for folder in (run_dir / "eval/4", tmp_path / "eval")
    )
    assert here["per_episode"] == there["per_episode"]
    assert rows[4]["eval_sum_reward"] == there["overall"]["avg_sum_reward"]
    assert rows[4]["eval_episodes"] == 5
    assert len(list((run_dir / "eval/4/videos").glob("*.mp4"))) == 4
    assert "Evaluated 5 episodes: success " in (run_dir / "log.txt").read_text()


def test_a_run_ends_with_a_verdict_on_its_last_evaluation(tray_argv, tmp_path, metrics):
    run_dir = tmp_path / "run"
    flags = (*EVALUATION, *STEPS, IN_PROCESS, "--eval_freq=2", "--eval.expected_success=[0,10]")
    train(tray_argv(run_dir, *flags))
    told = (run_dir / "log.txt").read_text()
    assert told.count("over 5 episodes: reproduced (expected 0 to 10 %)") == 1
    assert told.index("Evaluated 5 episodes") < told.index("Success 0.0 % [0.0, 43.4] over 5")
    facts = json.loads((run_dir / "run.json").read_text())["evaluation"]
    assert (facts["verdict"], facts["success"]) == ("reproduced", 0.0)
    for step in (2, 4):
        info = json.loads((run_dir / f"eval/{step}/eval_info.json").read_text())
        assert (info["expected_success"], info["verdict"]) == ([0, 10], "reproduced")
        assert metrics(run_dir)[step]["eval_expected_high"] == 0.1


def test_an_expectation_without_an_evaluation_is_refused(tray_argv, tmp_path):
    flags = ("--env.type=tray", "--env_eval_freq=0", "--eval.expected_success=[0,10]")
    with pytest.raises(UserError, match=r"--eval.expected_success needs --env.type"):
        train(tray_argv(tmp_path / "run", *STEPS, *flags))


def test_evaluation_changes_no_number_of_training(tray_argv, tmp_path, metrics, weights):
    plain, evaluated = tmp_path / "plain", tmp_path / "evaluated"
    averaged = ("--ema.enable=true", "--policy.dropout=0.1")
    train(tray_argv(plain, *STEPS, *averaged))
    train(tray_argv(evaluated, *STEPS, *averaged, *EVALUATION, IN_PROCESS, "--eval_freq=1"))
    for step, row in metrics(plain).items():
        same = ("loss", "l1_loss", "grad_norm", "lr")
        assert [metrics(evaluated)[step][name] for name in same] == [row[name] for name in same]
    before, after = weights(plain), weights(evaluated)
    assert all(torch.equal(before[name], after[name]) for name in before)


@pytest.mark.process
def test_scores_are_the_same_on_any_number_of_processes(tray_argv, tmp_path, metrics, in_ranks):
    flags = (*EVALUATION, "--steps=1", "--policy.optimizer_lr=1e-30", "--eval_freq=1", IN_PROCESS)
    runs = [(number, tmp_path / str(number)) for number in (1, 2, 3)]
    in_ranks(
        [
            (number, folder, tray_argv(folder, *flags, f"--batch_size={6 // number}"))
            for number, folder in runs
        ]
    )
    alone, *others = [scores(metrics(folder)[1]) for _, folder in runs]
    assert alone[SUCCESS] is not None
    assert others == [alone, alone]
    infos = [json.loads((folder / "eval/1/eval_info.json").read_text()) for _, folder in runs]
    assert infos[0]["per_episode"] == infos[1]["per_episode"] == infos[2]["per_episode"]
    assert len(list((tmp_path / "3/eval/1/videos").glob("*.mp4"))) == 4


def test_a_stop_request_ends_an_evaluation_and_a_resumed_run_evaluates_again(
    tray_argv, tmp_path, metrics, weights, monkeypatch
):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    flags = (*EVALUATION, *STEPS, IN_PROCESS, "--eval_freq=3", "--resume=auto")
    train(tray_argv(whole, *flags))
    stop, step = StopSignal(), TrayEnvironment.step

    def step_and_stop(*arguments: Any) -> Any:
        stop.request()
        return step(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(TrayEnvironment, "step", step_and_stop)
        assert train(tray_argv(parts, *flags), stop) is Ending.STOPPED
    last = metrics(parts)[3]
    assert "loss" in last and SUCCESS not in last
    assert not (parts / "eval").exists()

    train(tray_argv(parts, *flags))
    assert_same_run(metrics(whole), metrics(parts))
    assert all(torch.equal(weights(whole)[name], each) for name, each in weights(parts).items())


def test_the_checkpoint_of_an_evaluated_step_is_saved_before_its_evaluation(
    tray_argv, tmp_path, metrics, monkeypatch
):
    run_dir = tmp_path / "run"
    flags = tray_argv(run_dir, *EVALUATION, *STEPS, IN_PROCESS, "--resume=auto", "--eval_freq=4")
    flags += ["--save_freq=0", "--keep_best=success"]

    def fall(*_: Any) -> None:
        raise OSError("the simulator takes the run down")

    with monkeypatch.context() as patch:
        patch.setattr(Rollouts, "scores", fall)
        with pytest.raises(OSError, match="takes the run down"):
            train(flags)
    assert "loss" in metrics(run_dir)[4] and SUCCESS not in metrics(run_dir)[4]
    assert int((run_dir / "checkpoints/last").readlink().name) == 4
    # All steps are done, but not that evaluation.
    assert train(flags) is Ending.FINISHED
    assert SUCCESS in metrics(run_dir)[4]
    assert int((run_dir / "checkpoints/best").readlink().name) == 4


@pytest.mark.soak
@pytest.mark.process
@pytest.mark.parametrize("period", [3, 4], ids=["between checkpoints", "at the last one"])
def test_a_run_that_is_killed_while_it_evaluates_continues_as_if_it_had_not_been(
    start_job, tray_argv, tmp_path, metrics, weights, period
):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    flags = (*EVALUATION, *STEPS, f"--eval_freq={period}", "--resume=auto")
    train(tray_argv(whole, *flags, IN_PROCESS))
    endless = "--env.episode_length=1000000"
    job = start_job(parts, 1, *tray_argv(parts, *flags, endless))
    job.wait_for_updates(period - 1)
    job.wait_until(lambda: len(job.launcher.children(recursive=True)) >= 5)
    job.processes = job.launcher.children(recursive=True)
    job.launcher.kill()
    job.end()
    assert all(SUCCESS not in row for row in metrics(parts).values())

    train(tray_argv(parts, *flags, IN_PROCESS))
    assert_same_run(metrics(whole), metrics(parts))
    assert all(torch.equal(weights(whole)[name], each) for name, each in weights(parts).items())


@pytest.mark.soak
@pytest.mark.process
def test_a_request_to_one_rank_while_all_evaluate_is_answered_within_seconds(
    start_job, tray_argv, tmp_path
):
    run_dir = tmp_path / "run"
    long = ("--env.type=tray", "--env.episode_length=1000000", "--eval.n_episodes=4")
    long += ("--eval_freq=2", "--eval.batch_size=2", f"--timeout_s={TIMEOUT_S}")
    job = start_job(run_dir, 2, *tray_argv(run_dir, *long, *STEPS))
    # Ranks, each with a server of forks, a tracker of resources, and two environments.
    job.wait_until(lambda: len(job.launcher.children(recursive=True)) >= 2 + 2 * 3)
    job.processes = job.launcher.children(recursive=True)
    # The watchdog must not take the evaluation for a hang.
    time.sleep(1.3 * TIMEOUT_S)
    assert job.launcher.poll() is None, job.printed()
    job.rank(1).send_signal(signal.SIGTERM)
    code, took_s = job.end()
    assert code == 75, job.printed()
    assert took_s < 20
    assert json.loads((run_dir / "run.json").read_text())["ending"] == "stopped"


def test_an_environment_that_crashes_ends_its_episode_and_not_the_run(
    tray_argv, tmp_path, metrics, monkeypatch
):
    reset = TrayEnvironment.reset

    def reset_unless(environment: TrayEnvironment, seed: int) -> None:
        if seed == 1003:
            raise RuntimeError("the arm fell off")
        reset(environment, seed)

    monkeypatch.setattr(TrayEnvironment, "reset", reset_unless)
    flags = (*EVALUATION, *STEPS, IN_PROCESS, "--eval_freq=4")
    assert train(tray_argv(tmp_path / "run", *flags)) is Ending.FINISHED
    assert metrics(tmp_path / "run")[4]["eval_episodes"] == 5
    told = (tmp_path / "run/log.txt").read_text()
    assert "WARNING: 1 episodes crashed and count as failures; seed 1003" in told


def test_environments_that_all_crash_are_told_and_training_goes_on(
    tray_argv, tmp_path, metrics, monkeypatch
):
    def fall(*_: Any) -> None:
        raise RuntimeError("the arm fell off")

    monkeypatch.setattr(TrayEnvironment, "step", fall)
    flags = (*EVALUATION, *STEPS, IN_PROCESS, "--eval_freq=2")
    assert train(tray_argv(tmp_path / "run", *flags)) is Ending.FINISHED
    assert all(SUCCESS not in row for row in metrics(tmp_path / "run").values())
    assert "WARNING: evaluation after step 2: no episode" in (tmp_path / "run/log.txt").read_text()


def test_an_environment_that_cannot_begin_is_refused_before_training(
    tray_argv, tmp_path, monkeypatch
):
    def fall(*_: Any) -> None:
        raise RuntimeError("no display")

    monkeypatch.setattr(TrayEnvironment, "observe", fall)
    with pytest.raises(UserError, match=r"no episode could be run: .* no display"):
        train(tray_argv(tmp_path / "run", *EVALUATION, *STEPS, IN_PROCESS))
    assert not (tmp_path / "run/metrics.jsonl").exists()


def test_a_policy_that_the_environment_cannot_feed_is_refused_before_training(command, tmp_path):
    with pytest.raises(UserError, match=r"does not give observation\.velocity"):
        train(command.argv(tmp_path / "run", *EVALUATION, *STEPS))


def test_results_that_cannot_be_written_are_told_and_kept_in_the_rows(tray_argv, tmp_path, metrics):
    run_dir = tmp_path / "run"
    flags = (*EVALUATION, *STEPS, IN_PROCESS, "--eval_freq=2", "--resume=auto")
    run_dir.mkdir()
    (run_dir / "run.json").write_text("{}")
    (run_dir / "eval").write_text("in the way")
    assert train(tray_argv(run_dir, *flags)) is Ending.FINISHED
    assert SUCCESS in metrics(run_dir)[4]
    assert "WARNING: evaluation after step 2: " in (run_dir / "log.txt").read_text()


def test_the_checkpoint_with_the_best_success_is_kept(tray_argv, tmp_path, monkeypatch):
    run_dir = tmp_path / "run"
    step, started = TrayEnvironment.step, []

    def succeed_first(environment: TrayEnvironment, action: np.ndarray) -> Any:
        started.append(1)
        outcome = step(environment, action)
        return outcome._replace(success=len(started) <= 3, ended=True)

    monkeypatch.setattr(TrayEnvironment, "step", succeed_first)
    flags = (*EVALUATION, *STEPS, IN_PROCESS, "--eval_freq=2", "--keep_best=success")
    train(tray_argv(run_dir, *flags, "--keep_last=1"))
    assert int((run_dir / "checkpoints/best").readlink().name) == 2


@pytest.mark.process
def test_sharded_weights_are_refused_by_name(start_job, tray_argv, tmp_path):
    run_dir = tmp_path / "run"
    flags = tray_argv(run_dir, *EVALUATION, *STEPS, "--parallelism.dp_shard=2")
    job = start_job(run_dir, 2, *flags)
    assert job.end()[0] == 2
    told = "processes with sharded weights cannot evaluate. Set --eval.async=true"
    assert f"--env.type=tray: {told}" in job.printed()
    assert "Traceback" not in job.printed()


@pytest.mark.parametrize("flag", ["--dtype=float64", "--accelerator.mixed_precision=bf16"])
def test_policies_of_other_precisions_are_evaluated(tray_argv, tmp_path, metrics, flag):
    train(tray_argv(tmp_path / "run", *EVALUATION, "--steps=1", IN_PROCESS, flag))
    assert metrics(tmp_path / "run")[1]["eval_episodes"] == 5
    assert "WARNING" not in (tmp_path / "run/log.txt").read_text()
