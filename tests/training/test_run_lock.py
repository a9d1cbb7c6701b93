"""A run directory belongs to one run at a time."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from manyhands.config.resolve import read_train_config
from manyhands.config.runs.run_dir import LOCK
from manyhands.errors import UserError
from manyhands.launch.outcome import Ending
from manyhands.training import run_lock as claim
from manyhands.training.run_lock import RunLock
from manyhands.training.start import run_training

HOLDING = """
import socket, sys
from pathlib import Path
from manyhands.training.run_lock import RunLock
if sys.argv[2:]:
    socket.gethostname = lambda: sys.argv[2]
claim = RunLock(Path(sys.argv[1]))
claim.take()
print("held", flush=True)
sys.stdin.readline()
claim.give_up()
"""


@pytest.fixture
def hold(tmp_path):
    """Lets another process, perhaps of another machine, hold a run directory."""
    processes = []

    def start(*machine):
        process = subprocess.Popen(
            [sys.executable, "-c", HOLDING, str(tmp_path / "run"), *machine],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        assert process.stdout.readline() == "held\n"
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def test_a_run_is_refused_where_another_goes_on_and_starts_where_that_was_killed(
    hold, command, tmp_path
):
    holder = hold()
    config = read_train_config(command.argv(tmp_path / "run", "--steps=1"))
    with pytest.raises(UserError, match=rf"in use by a running job \(process {holder.pid} on"):
        run_training(config)
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert (tmp_path / "run" / LOCK).exists()
    assert run_training(config) is Ending.FINISHED
    assert (tmp_path / "run" / LOCK).read_text() == ""


def test_another_machine_may_be_gone_and_is_given_time_to_be_found_out(hold, tmp_path, monkeypatch):
    holder = hold("elsewhere")
    monkeypatch.setattr(claim, "LEASE_S", 1.0)
    with pytest.raises(UserError, match=r"on elsewhere\). .* no longer runs, remove \.lock"):
        RunLock(tmp_path / "run").take()
    monkeypatch.setattr(claim, "LEASE_S", 60.0)
    threading.Timer(1.0, holder.kill).start()
    RunLock(tmp_path / "run").take()


def test_a_directory_is_free_when_a_run_leaves_it(hold, tmp_path):
    holder = hold()
    holder.communicate("\n")
    assert holder.returncode == 0
    own = RunLock(tmp_path / "run")
    own.take()
    assert (tmp_path / "run" / LOCK).read_text().startswith(f"process {os.getpid()} on ")
    own.give_up()


def test_a_run_that_comes_to_nothing_leaves_no_folder(tmp_path):
    (tmp_path / "mine").mkdir()
    own = RunLock(tmp_path / "mine" / "today" / "run")
    own.take()
    own.give_up()
    assert [*tmp_path.rglob("*")] == [tmp_path / "mine"]


def test_a_directory_that_cannot_be_made_is_a_usage_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"--output_dir=.*: Not a directory. Set another"):
        RunLock(tmp_path / "file" / "run").take()


def test_what_a_run_wrote_stays(tmp_path):
    own = RunLock(tmp_path / "run")
    own.take()
    (tmp_path / "run" / "run.json").write_text("{}")
    own.give_up()
    assert (tmp_path / "run" / "run.json").exists()
