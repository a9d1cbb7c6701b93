"""What a run says to Ctrl-C."""

import json
import signal
from pathlib import Path

import pytest

from manyhands.observe.run_status import read_status
from manyhands.training.stop_answers import last_saved_step

ENDLESS = ("--batch_size=2", "--steps=1000000", "--log_freq=1")


@pytest.mark.process
@pytest.mark.parametrize("num_processes", [1, 2])
def test_ctrl_c_is_answered_once_for_all_ranks_and_the_run_is_saved(
    start_job, tmp_path, num_processes
):
    job = start_job(tmp_path / "run", num_processes, *ENDLESS)
    job.wait_for_updates()
    job.launcher.send_signal(signal.SIGINT)
    code, _ = job.end()
    printed = job.printed()
    assert code == 75, printed
    assert printed.count("Stopping after this step, then saving (about 1 s). ") == 1
    assert "Press Ctrl-C again to quit without saving." in printed
    assert last_saved_step(tmp_path / "run") is not None


@pytest.mark.process
def test_a_second_ctrl_c_says_what_is_lost_and_where_a_resume_continues(start_job, tmp_path):
    run_dir = tmp_path / "run"
    # A step this large takes seconds, so that the second request arrives within it.
    large = ("--batch_size=4000", "--steps=1000000", "--log_freq=1", "--save_freq=1")
    job = start_job(run_dir, 1, *large)
    job.wait_until(lambda: last_saved_step(run_dir) is not None)
    job.launcher.send_signal(signal.SIGINT)
    job.wait_until(lambda: "Stopping after this step" in job.printed())
    job.launcher.send_signal(signal.SIGINT)
    code, _ = job.end()
    printed, saved = job.printed(), last_saved_step(run_dir)
    assert code == 130, printed
    assert "then saving (about " in printed
    assert "Quitting without saving: " in printed
    assert f"Continue from step {saved} with: " in printed
    assert f"manyhands train --resume={run_dir}" in printed
    ending = f"quit without saving: resume continues from step {saved}"
    assert json.loads((run_dir / "run.json").read_text())["ending"] == ending
    assert read_status(run_dir).state == ending
    assert (run_dir / "log.txt").read_text().endswith(f"  {ending}\n")


@pytest.mark.process
def test_quitting_is_recorded_for_all_ranks_also_without_a_checkpoint(start_job, tmp_path):
    run_dir = tmp_path / "run"
    job = start_job(run_dir, 2, "--batch_size=4000", "--steps=1000000", "--log_freq=1")
    job.wait_for_updates(1)
    for _ in range(2):
        job.launcher.send_signal(signal.SIGINT)
        job.wait_until(lambda: "Stopping after this step" in job.printed())
    code, _ = job.end()
    assert code == 130, job.printed()
    assert "there is no checkpoint." in job.printed()
    ending = "quit without saving: there is no checkpoint"
    assert json.loads((run_dir / "run.json").read_text())["ending"] == ending
    assert last_saved_step(run_dir) is None


def test_a_run_without_checkpoints_has_no_saved_step(tmp_path: Path):
    assert last_saved_step(tmp_path) is None
