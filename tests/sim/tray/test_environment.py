"""The built-in task as an environment is the task itself."""

import numpy as np
import pytest

from manyhands.errors import UserError
from manyhands.sim.tray.environment import TrayEnvironment
from manyhands.sim.tray.task import CAMERA, ENVIRONMENT_STATE, STATE, TrayTask

INPUTS = {STATE: (4,), ENVIRONMENT_STATE: (4,), CAMERA: (3, 20, 20)}


def test_an_episode_is_that_of_the_task():
    environment, task = TrayEnvironment(INPUTS), TrayTask()
    environment.reset(7)
    seen = task.reset([7])
    for action in np.random.default_rng(0).uniform(-0.5, 0.5, (8, 3)).astype(np.float32):
        found = environment.observe()
        assert (found[STATE] == seen[STATE][0]).all()
        assert (found[ENVIRONMENT_STATE] == seen[ENVIRONMENT_STATE][0]).all()
        assert (found[CAMERA] == task.render(20)[0]).all()
        outcome = environment.step(action)
        seen, reward, success = task.step(action[None])
        assert outcome == (reward[0], success[0], success[0])
    assert environment.render().shape == (256, 256, 3)


def test_a_policy_reads_what_it_declares():
    environment = TrayEnvironment({STATE: (4,)})
    environment.reset(7)
    assert environment.observe().keys() == {STATE}


@pytest.mark.parametrize(
    ("inputs", "told"),
    [
        ({CAMERA: (3, 20, 30)}, "renders square images, but .* 20x30"),
        ({"observation.image": (3, 20, 20)}, r"does not give observation\.image"),
        ({STATE: (2,)}, r"shape \(4,\), but the policy reads \(2,\)"),
    ],
)
def test_a_policy_that_does_not_fit_is_refused(inputs, told):
    with pytest.raises(UserError, match=told):
        TrayEnvironment(inputs)
