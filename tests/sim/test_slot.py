"""Environments that crash, raise or hang take their own episode down and nothing else."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from manyhands.config.sections.env import TrayEnvConfig
from manyhands.errors import UserError
from manyhands.launch.helper_process import JOB_SIGNALS
from manyhands.parallel.placement import has_exited
from manyhands.sim.episode import Act, Begin, EpisodeSetup, Open
from manyhands.sim.slot import POLL_S, Failure, LocalSlot, ProcessSlot, answer, finished_slots
from manyhands.sim.tray.task import INSTRUCTION, STATE

SETUP = EpisodeSetup(TrayEnvConfig(), {STATE: (4,)})
ACTIONS = np.zeros((3, 3), np.float32)
DEADLINE_S = 60.0
USER = Path(__file__).resolve().parents[1] / "processes" / "environment_user.py"


def in_process():
    return ProcessSlot(SETUP, DEADLINE_S)


@pytest.fixture(params=[lambda: LocalSlot(SETUP), in_process], ids=["local", "process"])
def slot(request):
    made = request.param()
    yield made
    made.close()


def found(slot, command):
    slot.send(command)
    return result_of(slot)


def result_of(slot):
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        finished_slots([slot], POLL_S)
        found = slot.result()
        if found is not None:
            return found
    raise AssertionError("no result")


def test_a_process_gives_what_this_process_gives(slot):
    begun = found(slot, Begin(7))
    acted = found(slot, Act(ACTIONS))
    expected = LocalSlot(SETUP)
    for command, seen in ((Begin(7), begun), (Act(ACTIONS), acted)):
        wanted = found(expected, command)
        assert seen.rewards == wanted.rewards
        assert (seen.observation[STATE] == wanted.observation[STATE]).all()


def test_an_environment_that_raises_is_reported_and_the_next_episode_runs(slot):
    found(slot, Begin(7))
    failure = found(slot, Act(np.full((1, 3), np.nan, np.float32)))
    assert isinstance(failure, Failure)
    assert "raised AssertionError: an action is NaN or Inf" in failure.reason
    assert found(slot, Begin(7)).observation[STATE].shape == (1, 4)


def test_a_policy_that_does_not_fit_is_a_usage_error(slot):
    slot._setup = EpisodeSetup(TrayEnvConfig(), {"observation.images.wrist": (3, 8, 8)})
    failure = found(slot, Begin(7))
    assert isinstance(failure.fault, UserError)
    assert "does not give observation.images.wrist" in failure.reason


def test_a_process_that_dies_is_replaced():
    slot = in_process()
    found(slot, Begin(7))
    os.kill(slot._process.pid, 9)
    failure = found(slot, Act(ACTIONS))
    assert failure.reason == "the environment's process died with exit code -9"
    assert found(slot, Begin(7)).observation[STATE].shape == (1, 4)
    slot.close()


def test_a_process_that_hangs_is_killed():
    slot = in_process()
    found(slot, Begin(7))
    process = slot._process
    os.kill(process.pid, 19)  # SIGSTOP: it answers nothing any more.
    slot._timeout_s = 0.5
    failure = found(slot, Act(ACTIONS))
    assert failure.reason == "the environment did not answer within 0.5 s (--eval.timeout_s)"
    assert not process.is_alive()


def test_a_process_ends_with_its_slot():
    slot = in_process()
    found(slot, Begin(7))
    process = slot._process
    slot.close()
    assert not process.is_alive()


@pytest.mark.parametrize("number", JOB_SIGNALS)
def test_a_signal_to_the_job_ends_no_episode(number):
    slot = in_process()
    found(slot, Begin(7))
    os.kill(slot._process.pid, number)
    assert len(found(slot, Act(ACTIONS)).rewards) == 3
    slot.close()


@pytest.mark.new_interpreter
@pytest.mark.parametrize(("is_killed", "step"), [(True, "spin"), (False, "hang")])
def test_an_environment_ends_with_the_process_that_uses_it(is_killed, step):
    pytest.importorskip("gymnasium", reason="pip install 'manyhands[sim]'")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, str(USER), step], text=True, **pipes) as user:
        environment = psutil.Process(int(user.stdout.readline()))
        if is_killed:
            user.kill()
        user.stdin.close()
        assert user.wait(DEADLINE_S) == (-signal.SIGKILL if is_killed else 0)
    end = time.monotonic() + DEADLINE_S
    # Whoever adopts it may be slow to ask for its exit code.
    while not has_exited(environment):
        assert time.monotonic() < end, environment
        time.sleep(0.05)


def test_an_environment_is_built_without_an_episode(slot):
    assert answer(slot, Open()).instruction == INSTRUCTION
    with pytest.raises(UserError, match="no episode could be run: the environment raised"):
        answer(slot, Act(ACTIONS))


def test_the_answer_of_an_unfit_environment_is_its_usage_error(slot):
    slot._setup = EpisodeSetup(TrayEnvConfig(), {STATE: (5,)})
    with pytest.raises(UserError, match=r"gives observation\.state with shape \(4,\)"):
        answer(slot, Open())
