"""An interrupted run equals an uninterrupted one."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from manyhands.config.resolve import read_train_config
from manyhands.errors import Diverged
from manyhands.launch.outcome import Ending
from manyhands.observe.jsonl import read_rows
from manyhands.training.start import run_training

DEADLINE_S = 120
AVERAGE = "pretrained_model_ema/model.safetensors"
STEPS = ("--batch_size=4", "--log_freq=1", "--save_freq=5", "--audit", "--ema.enable=true")
ENDLESS = "--steps=1000000"


def start_and_signal(argv: list[str], run_dir: Path, step: int, number: int) -> int:
    """Start a run, send it a signal once it has passed a step, and return its exit code."""
    program = [sys.executable, "-m", "manyhands", "train", *argv]
    log = run_dir.with_suffix(".log")
    with log.open("w") as output:
        process = subprocess.Popen(
            program, stdout=output, stderr=output, env=os.environ | {"OMP_NUM_THREADS": "1"}
        )
    deadline = time.monotonic() + DEADLINE_S
    while last_step(run_dir) < step:
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.02)
    process.send_signal(number)
    return process.wait(DEADLINE_S)


def last_step(run_dir: Path) -> int:
    """The last row so far; one that is being written is not looked at."""
    file = run_dir / "metrics.jsonl"
    rows = list(read_rows(file)) if file.exists() else []
    return rows[-1]["step"] if rows else 0


def last_checkpoint(run_dir: Path) -> int:
    return int((run_dir / "checkpoints" / "last").readlink().name)


def assert_same_run(one: Path, other: Path, metrics, weights) -> None:
    for key, value in weights(one).items():
        assert torch.equal(value, weights(other)[key]), key
    averages = [load_file(run / "checkpoints/last" / AVERAGE) for run in (one, other)]
    for key, value in averages[0].items():
        assert torch.equal(value, averages[1][key]), key
    losses = {step: row["loss"] for step, row in metrics(one).items() if step > 1}
    again = {step: row["loss"] for step, row in metrics(other).items()}
    assert {step: again[step] for step in losses} == losses
    for file in (one / "audit").iterdir():
        assert (other / "audit" / file.name).read_text() == file.read_text()


@pytest.mark.process
def test_a_run_asked_to_stop_saves_leaves_with_75_and_continues_exactly(
    command, tmp_path, metrics, weights
):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    argv = command.argv(parts, *STEPS, ENDLESS)
    assert start_and_signal(argv, parts, 12, signal.SIGTERM) == 75
    assert json.loads((parts / "run.json").read_text())["ending"] == "stopped"
    stopped = last_checkpoint(parts)
    assert stopped >= 12
    steps = f"--steps={stopped + 8}"
    command.run([sys.executable, "-m", "manyhands", "train", f"--resume={parts}", steps])
    command.train(whole, *STEPS, steps)
    assert_same_run(whole, parts, metrics, weights)


@pytest.mark.process
def test_a_run_that_saves_nothing_saves_nothing_when_asked_to_stop(command, tmp_path):
    run_dir = tmp_path / "run"
    argv = command.argv(run_dir, *STEPS, ENDLESS, "--save_checkpoint=false")
    assert start_and_signal(argv, run_dir, 5, signal.SIGTERM) == 75
    assert not (run_dir / "checkpoints").exists()
    assert "nothing was saved" in (run_dir / "log.txt").read_text()


def test_a_run_that_is_at_its_end_has_nothing_to_do(command, tmp_path):
    run_dir = tmp_path / "run"
    config = read_train_config(command.argv(run_dir, "--steps=2"))
    assert run_training(config) is Ending.FINISHED
    resumed = read_train_config([f"--resume={run_dir}"])
    assert run_training(resumed) is Ending.FINISHED
    longer = read_train_config([f"--resume={run_dir}", "--steps=4"])
    assert run_training(longer) is Ending.FINISHED
    assert last_checkpoint(run_dir) == 4


def test_a_loss_that_is_not_finite_ends_the_run_without_a_checkpoint(command, tmp_path):
    run_dir = tmp_path / "run"
    flags = ("--steps=200", "--log_freq=90", "--save_freq=15", "--optimizer.grad_clip_norm=0")
    config = read_train_config(command.argv(run_dir, *flags, "--optimizer.lr=1e30"))
    with pytest.raises(Diverged, match="NaN or Inf"):
        run_training(config)
    assert not (run_dir / "checkpoints").exists()
    assert json.loads((run_dir / "run.json").read_text())["ending"] == "failed: Diverged"
