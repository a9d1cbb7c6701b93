"""What is known of a run before anything is loaded."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from manyhands.config.policies.act import ActConfig
from manyhands.config.resolve import resolve_config
from manyhands.config.runs.run_dir import LOCK
from manyhands.config.runs.run_state import finished_message, lock_holder, refuse_folder_in_use
from manyhands.config.train import TrainConfig
from manyhands.errors import UserError
from manyhands.manifest import manifest_text

HOLDING = """
import fcntl, sys
file = open(sys.argv[1], "ab+", buffering=0)
fcntl.lockf(file, fcntl.LOCK_EX)
file.write(sys.argv[2].encode())
print("held", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def hold(tmp_path):
    """Lets another process hold the lock of a folder under a name."""
    processes = []

    def start(name):
        program = [sys.executable, "-c", HOLDING, str(tmp_path / LOCK), name]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        process = subprocess.Popen(program, text=True, **pipes)
        processes.append(process)
        assert process.stdout.readline() == "held\n"

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def test_a_folder_in_use_on_this_machine_is_refused_with_process_and_host(hold, tmp_path):
    assert lock_holder(tmp_path) is None
    name = f"process 7 on {os.uname().nodename}"
    hold(name)
    assert lock_holder(tmp_path) == name
    with pytest.raises(UserError, match=rf"in use by a running job \({name}\)"):
        refuse_folder_in_use(tmp_path)


def test_the_lock_of_another_machine_is_left_to_whoever_takes_it(hold, tmp_path):
    hold("process 7 on elsewhere")
    assert lock_holder(tmp_path) == "process 7 on elsewhere"
    refuse_folder_in_use(tmp_path)


def test_resuming_a_run_that_has_not_saved_yet_says_that_it_is_running(hold, tmp_path):
    with pytest.raises(UserError, match="no checkpoint found"):
        resolve_config(TrainConfig(resume=str(tmp_path)))
    hold(f"process 7 on {os.uname().nodename}")
    with pytest.raises(UserError, match="in use by a running job"):
        resolve_config(TrainConfig(resume=str(tmp_path)))


@pytest.fixture
def finished(tmp_path):
    """A config that resumes a finished run of three steps."""
    checkpoint = tmp_path / "checkpoints" / "000003"
    (checkpoint / "training_state").mkdir(parents=True)
    (tmp_path / "run.json").write_text(json.dumps({"ending": "finished"}))
    (checkpoint / "manifest.json").write_text(manifest_text({"step": 3}, {}))
    own = {"steps": 3, "epochs": 1.5, "samples": None}
    (checkpoint / "training_state" / "manyhands_config.json").write_text(json.dumps(own))
    return TrainConfig(policy=ActConfig(), steps=3, resume=str(checkpoint))


def test_a_finished_run_says_so_and_how_to_train_longer(finished, tmp_path):
    message = finished_message(finished)
    assert message is not None
    assert f"{tmp_path} is finished: step 3 of 3" in message
    assert message.endswith("set --steps above 3")
    assert finished_message(replace(finished, steps=4)) is None


def test_a_budget_of_epochs_is_finished_while_it_stays_the_same(finished):
    same = replace(finished, steps=None, epochs=1.5)
    assert finished_message(same) is not None
    assert finished_message(replace(same, epochs=2)) is None


def test_a_run_that_was_stopped_at_its_last_step_is_not_finished(finished, tmp_path):
    (tmp_path / "run.json").write_text(json.dumps({"ending": "stopped"}))
    assert finished_message(finished) is None
    assert finished_message(replace(finished, resume=False)) is None
