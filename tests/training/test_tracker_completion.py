"""Trackers of a finished run that is resumed log what they lack."""

import json
from importlib.metadata import PackageNotFoundError
from importlib.util import find_spec
from pathlib import Path

import pytest

from manyhands.config.resolve import read_train_config
from manyhands.launch.outcome import Ending
from manyhands.training import tracking
from manyhands.training.spawn import train
from manyhands.training.start import run_training


@pytest.fixture
def finished(command, tmp_path) -> Path:
    """A run of three steps without trackers."""
    run_dir = tmp_path / "run"
    flags = ("--steps=3", "--log_freq=1", "--batch_size=2")
    assert run_training(read_train_config(command.argv(run_dir, *flags))) is Ending.FINISHED
    return run_dir


@pytest.mark.process
@pytest.mark.skipif(not find_spec("tensorboard"), reason="pip install 'manyhands[track]'")
def test_trackers_of_a_finished_run_log_what_they_lack_when_it_is_resumed(
    finished, tracked_values, capsys
):
    run_dir = finished
    before = json.loads((run_dir / "run.json").read_text())
    resume = [f"--resume={run_dir}", "--tensorboard.enable=true"]
    for _ in range(2):
        capsys.readouterr()
        assert train(read_train_config(resume)) is Ending.FINISHED
        assert f"{run_dir} is finished: step 3 of 3" in capsys.readouterr().out
        steps = tracked_values("tensorboard", run_dir, "train/steps")
        assert steps == [(step, step) for step in (1, 2, 3)]
        samples = tracked_values("tensorboard", run_dir, "train/samples")
        assert samples == [(step, 2 * step) for step in (1, 2, 3)]
    after = json.loads((run_dir / "run.json").read_text())
    folder = {"tensorboard": {"folder": str(run_dir / "tensorboard")}}
    assert after == before | {"trackers": folder, "wall_s": after["wall_s"]}


def test_a_tracker_that_is_missing_does_not_hide_that_a_run_is_finished(
    finished, monkeypatch, capsys
):
    run_dir = finished

    def missing(package: str) -> str:
        raise PackageNotFoundError(package)

    monkeypatch.setattr(tracking, "version", missing)
    config = read_train_config([f"--resume={run_dir}", "--tensorboard.enable=true"])
    assert train(config) is Ending.FINISHED
    printed = capsys.readouterr()
    assert "is finished" in printed.out and "trackers cannot be completed" in printed.err


def test_a_run_of_an_earlier_version_is_finished_all_the_same(finished, capsys):
    facts = json.loads((finished / "run.json").read_text())
    del facts["batch"]
    (finished / "run.json").write_text(json.dumps(facts))
    config = read_train_config([f"--resume={finished}", "--tensorboard.enable=true"])
    assert train(config) is Ending.FINISHED
    printed = capsys.readouterr()
    assert "is finished" in printed.out and "has no 'batch'" in " ".join(printed.err.split())
