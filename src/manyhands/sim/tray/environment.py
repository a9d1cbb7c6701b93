"""The built-in task as an environment."""

from collections.abc import Collection

import numpy as np

from manyhands.errors import UserError
from manyhands.sim.environment import Observation, Shapes, StepOutcome, chosen_inputs
from manyhands.sim.tray.task import CAMERA, ENVIRONMENT_STATE, INSTRUCTION, STATE, TrayTask

FILM_SIZE = 256


class TrayEnvironment:
    """One world of the built-in task."""

    instruction = INSTRUCTION
    action_size = 3

    def __init__(self, inputs: Shapes, optional: Collection[str] = ()) -> None:
        offered = {STATE: (4,), ENVIRONMENT_STATE: (4,), CAMERA: None}
        inputs = chosen_inputs("tray", offered, inputs, optional)
        _, height, width = inputs.get(CAMERA, (3, 1, 1))
        if height != width:
            raise UserError(
                f"--env.type=tray renders square images, but the policy reads {CAMERA} of "
                f"{height}x{width}. Evaluate a policy that reads square ones"
            )
        self._inputs = inputs
        self._task = TrayTask()
        self._values: Observation = {}

    def reset(self, seed: int) -> None:
        """Begin the episode of a seed."""
        self._values = self._task.reset([seed])

    def step(self, action: np.ndarray) -> StepOutcome:
        """Execute one action."""
        self._values, reward, success = self._task.step(action[None])
        return StepOutcome(float(reward[0]), bool(success[0]), ended=bool(success[0]))

    def observe(self) -> Observation:
        """What the policy reads of the current state."""
        return {
            name: self._image() if name == CAMERA else self._values[name][0]
            for name in self._inputs
        }

    def render(self) -> np.ndarray:
        """An image (height, width, 3) for people."""
        image: np.ndarray = self._task.render(FILM_SIZE)[0]
        return image

    def _image(self) -> np.ndarray:
        image: np.ndarray = self._task.render(self._inputs[CAMERA][-1])[0]
        return image
