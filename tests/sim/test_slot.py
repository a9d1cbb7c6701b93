"""Environments that crash, raise or hang take their own episode down and nothing else."""

import os
import time

import numpy as np
import pytest

from manyhands.config.sections.env import TrayEnvConfig
from manyhands.errors import UserError
from manyhands.sim.episode import Act, Begin, EpisodeSetup
from manyhands.sim.slot import Failure, LocalSlot, ProcessSlot, wait_for_any
from manyhands.sim.tray.task import STATE

SETUP = EpisodeSetup(TrayEnvConfig(), {STATE: (4,)})
ACTIONS = np.zeros((3, 3), np.float32)
DEADLINE_S = 60.0


@pytest.fixture(params=[LocalSlot, ProcessSlot])
def slot(request):
    made = request.param(SETUP)
    yield made
    made.close()


def result_of(slot):
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        wait_for_any([slot])
        found = slot.result()
        if found is not None:
            return found
    raise AssertionError("no result")


def answer(slot, command):
    slot.send(command)
    return result_of(slot)


def test_a_process_gives_what_this_process_gives(slot):
    begun = answer(slot, Begin(7))
    acted = answer(slot, Act(ACTIONS))
    expected = LocalSlot(SETUP)
    for command, found in ((Begin(7), begun), (Act(ACTIONS), acted)):
        wanted = answer(expected, command)
        assert found.rewards == wanted.rewards
        assert (found.observation[STATE] == wanted.observation[STATE]).all()


def test_an_environment_that_raises_is_reported_and_the_next_episode_runs(slot):
    answer(slot, Begin(7))
    failure = answer(slot, Act(np.full((1, 3), np.nan, np.float32)))
    assert isinstance(failure, Failure)
    assert "raised AssertionError: an action is NaN or Inf" in failure.reason
    assert answer(slot, Begin(7)).observation[STATE].shape == (1, 4)


def test_a_policy_that_does_not_fit_is_a_usage_error(slot):
    slot._setup = EpisodeSetup(TrayEnvConfig(), {"observation.images.wrist": (3, 8, 8)})
    failure = answer(slot, Begin(7))
    assert isinstance(failure.fault, UserError)
    assert "does not give observation.images.wrist" in failure.reason


def test_a_process_that_dies_is_replaced():
    slot = ProcessSlot(SETUP)
    answer(slot, Begin(7))
    os.kill(slot._process.pid, 9)
    failure = answer(slot, Act(ACTIONS))
    assert failure.reason == "the environment's process died with exit code -9"
    assert answer(slot, Begin(7)).observation[STATE].shape == (1, 4)
    slot.close()


def test_a_process_that_hangs_is_killed():
    slot = ProcessSlot(SETUP, deadline_s=DEADLINE_S)
    answer(slot, Begin(7))
    process = slot._process
    os.kill(process.pid, 19)  # SIGSTOP: it answers nothing any more.
    slot._deadline_s = 0.5
    failure = answer(slot, Act(ACTIONS))
    assert "did not answer within" in failure.reason
    assert not process.is_alive()


def test_a_process_ends_with_its_slot():
    slot = ProcessSlot(SETUP)
    answer(slot, Begin(7))
    process = slot._process
    slot.close()
    assert not process.is_alive()
