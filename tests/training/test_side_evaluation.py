"""Evaluation in a side process while training continues."""

import json
import re
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from manyhands.checkpoint import store
from manyhands.checkpoint.writer import CheckpointWriter
from manyhands.config.resolve import read_train_config
from manyhands.errors import ConfigError
from manyhands.launch.outcome import Ending
from manyhands.stop import StopSignal
from manyhands.training.evaluation_scores import SUCCESS
from manyhands.training.side_evaluation import SideRollouts, remove_snapshots
from manyhands.training.start import run_training
from manyhands.training.step.learner import Learner

EVALUATION = ("--env.type=tray", "--env.episode_length=4", "--eval.n_episodes=5")
EVALUATION += ("--policy.n_action_steps=2", "--eval.use_async_envs=false", "--ema.enable=true")
LONGER = "--env.episode_length=12"
STEPS = ("--steps=4", "--log_freq=1", "--save_freq=2", "--batch_size=6")
ASIDE = "--eval.async=true"


def train(argv: list[str], stop: StopSignal | None = None) -> Ending:
    return run_training(read_train_config(argv), stop=stop)


def scores(row: dict[str, Any]) -> dict[str, float]:
    """What an evaluation adds to a row, but for its time."""
    return {name: row[name] for name in row if name.startswith("eval_") and name != "eval_s"}


def log_of(run_dir: Path) -> str:
    return (run_dir / "log.txt").read_text()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps that wait for the evaluation before them, so that none is skipped."""
    train_step = Learner.train_step

    def wait_and_train(*arguments: Any) -> Any:
        for thread in threading.enumerate():
            if thread.name == "evaluation":
                thread.join()
        return train_step(*arguments)

    monkeypatch.setattr(Learner, "train_step", wait_and_train)


@pytest.mark.process
def test_it_finds_what_an_evaluation_on_all_ranks_finds_and_changes_no_number(
    tray_argv, tmp_path, metrics, weights, patient
):
    here, aside = tmp_path / "here", tmp_path / "aside"
    expecting = ("--eval_freq=2", "--eval.expected_success=[95,100]")
    train(tray_argv(here, *EVALUATION, *STEPS, *expecting))
    train(tray_argv(aside, *EVALUATION, *STEPS, *expecting, ASIDE))
    for step, row in metrics(here).items():
        assert metrics(aside)[step]["loss"] == row["loss"]
        assert scores(metrics(aside)[step]) == scores(row)
    assert SUCCESS in metrics(aside)[2] and SUCCESS in metrics(aside)[4]
    first, second = (
        json.loads((folder / "eval/4/eval_info.json").read_text()) for folder in (here, aside)
    )
    assert first["per_episode"] == second["per_episode"]
    assert first["verdict"] == second["verdict"] == "below"
    assert all(torch.equal(weights(here)[name], each) for name, each in weights(aside).items())
    assert not (aside / "eval/4/policy").exists()
    assert re.search(r"max reward 0.00, \d+ s \(step 4\)", log_of(aside))
    ends = [json.loads((each / "run.json").read_text())["evaluation"] for each in (here, aside)]
    assert ends[0] == ends[1]
    assert "over 5 episodes: below (expected 95 to 100 %)" in log_of(aside)


@pytest.mark.process
def test_one_runs_at_a_time_and_the_last_is_waited_for(tray_argv, tmp_path, metrics):
    run_dir = tmp_path / "run"
    train(tray_argv(run_dir, *EVALUATION, LONGER, *STEPS, "--eval_freq=1", ASIDE))
    assert "evaluation after step 2 is skipped: that of step 1 still runs" in log_of(run_dir)
    assert {step for step, row in metrics(run_dir).items() if SUCCESS in row} == {1, 4}


@pytest.mark.process
def test_a_crash_of_it_is_a_warning_and_keeps_no_checkpoint(
    tray_argv, tmp_path, metrics, monkeypatch, patient
):
    monkeypatch.setattr("manyhands.training.side_evaluation.PROGRAM", "no.such.program")
    run_dir = tmp_path / "run"
    flags = (*EVALUATION, *STEPS, "--eval_freq=2", "--keep_best=success", "--keep_last=1", ASIDE)
    assert train(tray_argv(run_dir, *flags)) is Ending.FINISHED
    for step in (2, 4):
        assert SUCCESS not in metrics(run_dir)[step]
        warning = f"WARNING: evaluation after step {step}: its process failed with exit"
        assert warning in log_of(run_dir)
    assert names_of(run_dir / "checkpoints") == ["000004"]


@pytest.mark.process
def test_a_stop_request_ends_it(tray_argv, tmp_path, metrics, monkeypatch):
    stop, wait = StopSignal(), SideRollouts._wait

    def ask_and_wait(rollouts: SideRollouts, stopping: bool) -> bool:
        stop.request()
        return wait(rollouts, stopping)

    run_dir = tmp_path / "run"
    endless = "--env.episode_length=1000000"
    flags = (*EVALUATION, *STEPS, "--eval_freq=4", ASIDE)
    with monkeypatch.context() as patch:
        patch.setattr(SideRollouts, "_wait", ask_and_wait)
        assert train(tray_argv(run_dir, *flags, endless), stop) is Ending.STOPPED
    assert "evaluation after step 4 is stopped" in log_of(run_dir)
    assert SUCCESS not in metrics(run_dir)[4]
    assert not [*run_dir.glob("eval/*/policy")]
    # All steps are done, but not that evaluation: a resumed run repeats it.
    assert train(tray_argv(run_dir, *flags, "--resume=auto")) is Ending.FINISHED
    assert SUCCESS in metrics(run_dir)[4]


def test_a_snapshot_of_a_killed_run_is_removed(tmp_path):
    (tmp_path / "3" / "policy").mkdir(parents=True)
    (tmp_path / "3" / "eval_info.json").touch()
    remove_snapshots(tmp_path)
    assert [path.name for path in (tmp_path / "3").iterdir()] == ["eval_info.json"]


@pytest.mark.process
def test_its_limit_is_lifted_when_training_has_ended(tray_argv, tmp_path, monkeypatch):
    lift, lifted = SideRollouts._lift_limit, []

    def lift_and_look(rollouts: SideRollouts) -> None:
        lift(rollouts)
        lifted.extend(tmp_path.glob("run/eval/4/policy/unlimited"))

    monkeypatch.setattr(SideRollouts, "_lift_limit", lift_and_look)
    train(tray_argv(tmp_path / "run", *EVALUATION, *STEPS, "--eval_freq=4", ASIDE))
    assert lifted


@pytest.mark.soak
@pytest.mark.process
def test_sharded_weights_are_evaluated(tray_argv, tmp_path, metrics, in_ranks):
    run_dir = tmp_path / "run"
    sharded = ("--parallelism.dp_shard=2", "--batch_size=3", "--steps=2", "--eval_freq=2")
    in_ranks([(2, run_dir, tray_argv(run_dir, *EVALUATION, *sharded, ASIDE))])
    assert metrics(run_dir)[2]["eval_episodes"] == 5


@pytest.mark.soak
@pytest.mark.process
def test_a_request_to_any_rank_ends_it(start_job, tray_argv, tmp_path):
    run_dir = tmp_path / "run"
    flags = (*EVALUATION, *STEPS, "--eval_freq=4", "--batch_size=3", ASIDE)
    flags = tray_argv(run_dir, *flags, "--env.episode_length=1000000")
    job = start_job(run_dir, 2, *flags)
    job.wait_for_updates(4)
    job.wait_until(lambda: (run_dir / "eval/4/policy").exists())
    job.rank(1).send_signal(signal.SIGTERM)
    code, took_s = job.end()
    assert code == 75, job.printed()
    assert took_s < 20


def test_early_stopping_needs_its_score_at_once(tray_argv, tmp_path):
    flags = (*EVALUATION, ASIDE, "--eval_freq=1", "--keep_best=success")
    read_train_config(tray_argv(tmp_path, *flags))
    with pytest.raises(ConfigError, match=r"--eval\.async=true finds success later"):
        read_train_config(tray_argv(tmp_path, *flags, "--early_stopping_patience=1"))


SUCCESSES = {2: 0.2, 4: 0.8}


def names_of(checkpoints: Path) -> list[str]:
    return sorted(path.name for path in checkpoints.glob("[0-9]*"))


@pytest.mark.process
def test_the_best_checkpoint_is_kept_until_its_score_arrives(
    tray_argv, tmp_path, metrics, monkeypatch
):
    """The evaluation of step 4 ends after steps 6 and 8 were saved; that of step 8 fails."""
    run_dir = tmp_path / "run"
    checkpoints = run_dir / "checkpoints"
    kept_unscored: list[list[str]] = []

    def pretend(rollouts: SideRollouts, job: Any) -> None:
        if job.step == 4:
            while "000008" not in names_of(checkpoints) or "000006" in names_of(checkpoints):
                time.sleep(0.01)
            kept_unscored.append(names_of(checkpoints))
        found = {SUCCESS: SUCCESSES[job.step]} if job.step in SUCCESSES else {}
        rollouts._late.put((job.step, found))

    monkeypatch.setattr(SideRollouts, "_run", pretend)
    flags = ("--steps=8", "--log_freq=1", "--save_freq=2", "--batch_size=6", "--eval_freq=2")
    train(tray_argv(run_dir, *EVALUATION, *flags, ASIDE, "--keep_best=success", "--keep_last=1"))
    # Step 2 is the best that has a score by then; step 6 was not evaluated.
    assert kept_unscored == [["000002", "000004", "000008"]]
    assert names_of(checkpoints) == ["000004", "000008"]
    assert (checkpoints / "best").readlink() == Path("000004")
    assert metrics(run_dir)[4][SUCCESS] == 0.8


@pytest.mark.process
def test_late_scores_are_added_between_saves(tray_argv, tmp_path, metrics, monkeypatch):
    write, add = CheckpointWriter.write, store.add_scores
    added: list[tuple[int, bool]] = []

    def write_slowly(*arguments: Any) -> None:
        time.sleep(0.3)
        write(*arguments)

    def note_and_add(run_dir: Path, step: int, scores: Any) -> None:
        added.append((step, any(each.name == "saving" for each in threading.enumerate())))
        add(run_dir, step, scores)

    def answer(rollouts: SideRollouts, job: Any) -> None:
        rollouts._late.put((job.step, {SUCCESS: 0.5}))

    monkeypatch.setattr(CheckpointWriter, "write", write_slowly)
    monkeypatch.setattr(store, "add_scores", note_and_add)
    monkeypatch.setattr(SideRollouts, "_run", answer)
    run_dir = tmp_path / "run"
    flags = (*EVALUATION, "--steps=8", "--log_freq=1", "--save_freq=4", "--batch_size=6")
    train(tray_argv(run_dir, *flags, "--eval_freq=4", ASIDE, "--keep_best=success"))
    assert added == [(4, False), (8, False)]
    assert metrics(run_dir)[8][SUCCESS] == 0.5
    assert (run_dir / "checkpoints/best").readlink() == Path("000004")
