"""ALOHA: two arms hand over a cube, or insert a peg into a socket."""

from collections.abc import Collection
from typing import Any

import numpy as np

from manyhands.config.sections.env import AlohaEnvConfig
from manyhands.sim.environment import Observation, Shapes, StepOutcome, chosen_inputs
from manyhands.sim.gym import make
from manyhands.sim.rendering import explaining_rendering

STATE, CAMERA_PREFIX = "observation.state", "observation.images."
CAMERAS = {"top": "top", "angle": "angle", "vis": "front_close"}
"""The camera in the scene of each one that gym-aloha observes."""
INSTRUCTIONS = {
    "AlohaInsertion-v0": "Insert the peg into the socket.",
    "AlohaTransferCube-v0": "Pick up the cube with the right arm and transfer it to the left arm.",
}
OBJECTS = {"AlohaInsertion-v0": ("peg", "socket"), "AlohaTransferCube-v0": ("cube",)}
"""In the order of their poses in the simulation."""
MAX_REWARD = 4
FILM_SIZE = (240, 320)


class AlohaEnvironment:
    """gym-aloha; only the cameras that the policy reads are rendered, when it reads them."""

    action_size = 14

    def __init__(
        self, config: AlohaEnvConfig, inputs: Shapes, optional: Collection[str] = ()
    ) -> None:
        offered = {STATE: (14,)} | {f"{CAMERA_PREFIX}{camera}": None for camera in CAMERAS}
        inputs = chosen_inputs("aloha", offered, inputs, optional)
        self.instruction = INSTRUCTIONS[config.task]
        self._task = config.task
        self._inputs = inputs
        self._env = make(f"gym_aloha/{config.task}", "gym_aloha", obs_type="pixels_agent_pos")
        task = self._env.unwrapped._env.task
        # The task renders all its cameras for every action.
        task.get_observation = lambda physics: {
            "qpos": task.get_qpos(physics),
            "images": dict.fromkeys(CAMERAS, np.empty(0)),
        }
        self._state = np.zeros(0)

    def reset(self, seed: int) -> None:
        """Begin the episode of a seed."""
        values, _ = self._env.unwrapped.reset(seed=seed)
        self._state = values["agent_pos"]

    def step(self, action: np.ndarray) -> StepOutcome:
        """Execute one action."""
        values, reward, *_ = self._env.unwrapped.step(action)
        self._state = values["agent_pos"]
        success = reward == MAX_REWARD
        return StepOutcome(float(reward), success, ended=success)

    def observe(self) -> Observation:
        """What the policy reads of the current state."""
        return {
            name: self._state.astype(np.float32)
            if name == STATE
            else self._image(name.removeprefix(CAMERA_PREFIX), *shape[1:])
            for name, shape in self._inputs.items()
        }

    @property
    def physics(self) -> Any:
        """The simulation, for a scripted expert."""
        return self._env.unwrapped._env.physics

    @property
    def object_places(self) -> dict[str, np.ndarray]:
        """Where the centers of the task's objects are."""
        names = OBJECTS[self._task]
        poses = self.physics.data.qpos[-7 * len(names) :].reshape(-1, 7)
        return {name: pose[:3].copy() for name, pose in zip(names, poses, strict=True)}

    def render(self) -> np.ndarray:
        """An image (height, width, 3) for people."""
        return self._image("top", *FILM_SIZE)

    def _image(self, camera: str, height: int, width: int) -> np.ndarray:
        with explaining_rendering("MuJoCo"):
            image: np.ndarray = self.physics.render(
                height=height, width=width, camera_id=CAMERAS[camera]
            )
        return image
