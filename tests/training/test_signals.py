"""A request to stop, to any rank and at any time, loses nothing and leaves nobody."""

import json
import signal
import time
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from manyhands.config.resolve import read_train_config
from manyhands.errors import Stopped
from manyhands.launch.outcome import Ending
from manyhands.observe.jsonl import read_rows
from manyhands.stop import StopSignal
from manyhands.training.start import run_training
from manyhands.training.validation import CHUNK, HeldOut

NUM_HELD_OUT = 300
STEPS = ("--batch_size=2", "--log_freq=1", "--save_freq=0", "--resume=auto")


def last_checkpoint(run_dir: Path) -> int:
    return int((run_dir / "checkpoints" / "last").readlink().name)


def ending_of(run_dir: Path) -> str:
    return json.loads((run_dir / "run.json").read_text())["ending"]


@pytest.mark.process
def test_a_request_to_one_rank_saves_and_ends_all_and_the_same_flags_go_on(
    start_job, command, in_ranks, tmp_path
):
    run_dir = tmp_path / "run"
    job = start_job(run_dir, 3, *STEPS, "--steps=1000000")
    job.wait_for_updates()
    job.rank(2).send_signal(signal.SIGTERM)
    code, took_s = job.end()
    assert code == 75, job.printed()
    assert took_s < 30
    stopped = last_checkpoint(run_dir)
    assert stopped >= 3
    assert ending_of(run_dir) == "stopped"

    # Nothing but the end is another, so that the test need not know how fast steps are.
    last = stopped + 5
    in_ranks([(3, run_dir, command.argv(run_dir, *STEPS, f"--steps={last}"))])
    assert [row["step"] for row in read_rows(run_dir / "metrics.jsonl")] == [*range(1, last + 1)]
    assert last_checkpoint(run_dir) == last


@pytest.mark.new_interpreter
@pytest.mark.process
def test_a_request_to_processes_that_still_start_ends_them_with_75(start_job, tmp_path):
    job = start_job(tmp_path / "run", 2, *STEPS, "--steps=200")
    job.wait_until(lambda: len(job.launcher.children()) == 2)
    time.sleep(1)
    job.processes = job.launcher.children(recursive=True)
    job.launcher.send_signal(signal.SIGUSR1)
    code, took_s = job.end()
    assert code == 75, job.printed()
    assert took_s < 30
    assert job.last_step() == 0


@pytest.mark.process
def test_ranks_whose_launcher_is_killed_save_and_leave(start_job, tmp_path):
    job = start_job(tmp_path / "run", 2, *STEPS, "--steps=1000000")
    job.wait_for_updates()
    job.launcher.kill()
    code, took_s = job.end()
    assert code == -signal.SIGKILL
    assert took_s < 30
    assert ending_of(tmp_path / "run") == "stopped"
    assert last_checkpoint(tmp_path / "run") >= 3


def test_a_request_before_the_first_update_is_obeyed_and_saves_nothing(command, tmp_path):
    stop = StopSignal()
    stop.request()
    config = read_train_config(command.argv(tmp_path / "run", *STEPS, "--steps=3"))
    with pytest.raises(Stopped):
        run_training(config, stop=stop)
    assert ending_of(tmp_path / "run") == "stopped"
    assert not (tmp_path / "run" / "checkpoints").exists()
    again = read_train_config(command.argv(tmp_path / "run", *STEPS, "--steps=3"))
    assert run_training(again) is Ending.FINISHED


@pytest.fixture(scope="module")
def measured(record_tiny, tmp_path_factory, tiny_act):
    """Flags of a run that measures much longer than it trains."""
    root = tmp_path_factory.mktemp("held out") / "data"
    lengths = (20, NUM_HELD_OUT)
    record_tiny(root, "observation.state", lengths, np.random.default_rng(0).normal)
    flags = ("--dataset.eval_split=0.5", "--eval_steps=1", "--steps=3", "--batch_size=2")

    def argv(run_dir: Path) -> list[str]:
        return [f"--dataset.root={root}", *tiny_act, f"--output_dir={run_dir}", *STEPS, *flags]

    return argv


def test_a_measurement_that_a_request_cuts_short_is_made_up_for(
    measured, metrics, tmp_path, monkeypatch
):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    run_training(read_train_config(measured(whole)))

    stop, num_chunks = StopSignal(), -(-NUM_HELD_OUT // CHUNK)
    request_in_chunk(num_chunks + 1, stop, monkeypatch)
    assert run_training(read_train_config(measured(parts)), stop=stop) is Ending.STOPPED
    last = metrics(parts)[last_checkpoint(parts)]
    assert "loss" in last and "held_out_loss" not in last

    run_training(read_train_config(measured(parts)))
    for step, row in metrics(whole).items():
        again = metrics(parts)[step]
        assert again["loss"] == row["loss"]
        assert again["held_out_loss"] == row["held_out_loss"]


def request_in_chunk(number: int, stop: StopSignal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask a run to stop while it measures a chunk, counted over all measurements."""
    measure, calls = HeldOut._sums, count(1)

    def measure_and_ask(*arguments: Any) -> Any:
        if next(calls) == number:
            stop.request()
        return measure(*arguments)

    monkeypatch.setattr(HeldOut, "_sums", measure_and_ask)
