"""A run ends once its score no longer improves."""

import json

import pytest

from manyhands.config.resolve import read_train_config
from manyhands.config.train import TrainConfig
from manyhands.launch.outcome import Ending
from manyhands.parallel.world import joined_world
from manyhands.stop import StopSignal
from manyhands.training.early_stopping import EarlyStopping
from manyhands.training.start import run_training
from manyhands.training.validation import Validator

LOSSES = {2: 0.9, 4: 0.5, 6: 0.7, 8: 0.6, 10: 0.4}
"""Held-out losses by step."""
FLAGS = (
    "--steps=12",
    "--log_freq=1",
    "--save_freq=4",
    "--batch_size=2",
    "--dataset.eval_split=0.5",
)
FLAGS += ("--eval_steps=2", "--keep_best=held_out_loss", "--early_stopping_patience=2")


@pytest.fixture
def train(tray_argv, monkeypatch):
    """Trains with held-out losses that are known."""
    measured = Validator.scores_after

    def scores_after(validator, step):
        scores = measured(validator, step)
        return scores and scores | {"held_out_loss": LOSSES.get(step, 1.0)}

    monkeypatch.setattr(Validator, "scores_after", scores_after)

    def run(run_dir, *flags, stop=None):
        argv = tray_argv(run_dir, *FLAGS, "--resume=auto", *flags)
        return run_training(read_train_config(argv), stop=stop)

    return run


def steps_of(run_dir):
    return [json.loads(line)["step"] for line in (run_dir / "metrics.jsonl").open()]


def test_it_ends_with_a_checkpoint_after_as_many_worse_scores(train, tmp_path):
    assert train(tmp_path / "run") is Ending.FINISHED
    assert steps_of(tmp_path / "run")[-1] == 8
    checkpoints = tmp_path / "run" / "checkpoints"
    assert [int((checkpoints / name).readlink().name) for name in ("best", "last")] == [4, 8]
    told = "ended early: held_out_loss was best after step 4 and has been measured 2 times since"
    assert told in (tmp_path / "run" / "log.txt").read_text()


def test_a_resumed_run_ends_after_the_same_step(train, tmp_path, monkeypatch):
    stop, scores_after = StopSignal(), Validator.scores_after

    def stop_after_six(validator, step):
        if step == 6:
            stop.request()
        return scores_after(validator, step)

    with monkeypatch.context() as patch:
        patch.setattr(Validator, "scores_after", stop_after_six)
        assert train(tmp_path / "run", stop=stop) is Ending.STOPPED
    assert steps_of(tmp_path / "run")[-1] == 6
    assert train(tmp_path / "run") is Ending.FINISHED
    assert steps_of(tmp_path / "run")[-1] == 8


def test_more_patience_lets_an_ended_run_continue(train, tmp_path):
    train(tmp_path / "run")
    train(tmp_path / "run")
    assert steps_of(tmp_path / "run")[-1] == 8
    assert train(tmp_path / "run", "--early_stopping_patience=3") is Ending.FINISHED
    assert steps_of(tmp_path / "run")[-1] == 12


@pytest.mark.parametrize(
    ("score", "values"), [("held_out_loss", [3, 2, 2, 2]), ("success", [0, 1, 1, 0])]
)
def test_an_equal_score_is_no_better_one(tmp_path, score, values):
    metric = "eval_success" if score == "success" else score
    rows = [{"step": step, metric: value} for step, value in enumerate(values[:-1], start=1)]
    file = tmp_path / "metrics.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = TrainConfig(keep_best=score, early_stopping_patience=2)
    with joined_world(TrainConfig(), device_name="cpu") as world:
        patience = EarlyStopping(config, world, file)
        assert patience.reason_after(3) is None
        assert patience.reason_after(4, {}) is None
        assert patience.reason_after(4, {metric: values[-1]}) is not None
