"""PushT: push a T-shaped block onto its target."""

from collections.abc import Collection
from typing import Any

import numpy as np

from manyhands.config.sections.env import PushtEnvConfig
from manyhands.errors import EnvironmentFault
from manyhands.sim.environment import Observation, Shapes, StepOutcome, chosen_inputs
from manyhands.sim.gym import as_input, imported, make

STATE, ENVIRONMENT_STATE, CAMERA = (
    "observation.state",
    "observation.environment_state",
    "observation.image",
)
WITHOUT_IMAGES = "environment_state_agent_pos"


class PushtEnvironment:
    """gym-pusht; images are rendered for the observations that the policy reads."""

    instruction = "Push the T-shaped block onto the T-shaped target."
    action_size = 2

    def __init__(
        self, config: PushtEnvConfig, inputs: Shapes, optional: Collection[str] = ()
    ) -> None:
        offered = {STATE: (2,), ENVIRONMENT_STATE: (16,), CAMERA: None}
        inputs = chosen_inputs("pusht", offered, inputs, optional)
        self._inputs = inputs
        sizes: dict[str, Any] = {
            "visualization_width": config.visualization_width,
            "visualization_height": config.visualization_height,
        }
        if CAMERA in inputs:
            _, sizes["observation_height"], sizes["observation_width"] = inputs[CAMERA]
        name = f"gym_pusht/{config.task}"
        # Its step would render an image for every action.
        self._env = make(name, "gym_pusht", obs_type=WITHOUT_IMAGES, **sizes).unwrapped
        self._env._get_coverage = self._coverage
        self._to_polygon = imported("gym_pusht.envs.pusht").pymunk_to_shapely
        self._values: dict[str, np.ndarray] = {}

    def reset(self, seed: int) -> None:
        """Begin the episode of a seed."""
        # It would be drawn into the first frame.
        self._env._last_action = None
        try:
            self._values, _ = self._env.reset(seed=seed)
        except AttributeError as error:
            found = imported("pymunk").version
            raise EnvironmentFault(
                f"gym-pusht does not work with pymunk {found}: {error}. Install: pip install "
                "'pymunk<7'"
            ) from error

    def step(self, action: np.ndarray) -> StepOutcome:
        """Execute one action."""
        self._values, reward, _, _, info = self._env.step(action)
        success = bool(info["is_success"])
        return StepOutcome(float(reward), success, ended=success)

    def observe(self) -> Observation:
        """What the policy reads of the current state."""
        values = {
            STATE: self._values["agent_pos"],
            ENVIRONMENT_STATE: self._values["environment_state"],
        }
        return {
            name: self._env._render(visualize=False) if name == CAMERA else as_input(values[name])
            for name in self._inputs
        }

    def _coverage(self) -> float:
        """Share of the target that the block covers."""
        # The block's shapes are a set, whose order changes the last digit of the area.
        shapes = sorted(self._env.block.shapes, key=lambda shape: shape.get_vertices())
        goal = self._to_polygon(self._env.get_goal_pose_body(self._env.goal_pose), shapes)
        covered = goal.intersection(self._to_polygon(self._env.block, shapes)).area
        return float(covered / goal.area)

    def render(self) -> np.ndarray:
        """An image (height, width, 3) for people."""
        image: np.ndarray = self._env.render()
        return image
