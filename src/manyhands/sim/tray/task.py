"""The built-in task: a robot arm over a table puts a block into a tray.

Lengths are in table units: the camera sees the square from -1 to 1, x to the right, y away from
the arm. Everything that happens is a pure function of a world's seed and its actions, and worlds
stepped together never touch each other.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from manyhands.rng import derive_seed
from manyhands.sim.tray.drawing import BLOCK_HALF, BLOCK_OPENING, TRAY_RADIUS, Scene, draw_scene

FPS = 10
MAX_STEPS = 90
INSTRUCTION = "Put the block into the tray."

STATE = "observation.state"
ENVIRONMENT_STATE = "observation.environment_state"
CAMERA = "observation.images.top"
ACTION = "action"

REACH = 0.9  # The gripper stays within this distance of the center, along each axis
RESPONSE = 0.6  # Fraction of the distance to its target that the gripper covers in one step
MAX_TRAVEL = 0.09  # Longest move of the gripper in one step
MAX_OPENING_CHANGE = 0.2  # Largest change of the opening, from 0 (shut) to 1 (wide), in one step
GRASP_RADIUS = BLOCK_HALF  # Fingers that close with their center this near to the block's hold it
RELEASE_OPENING = 0.6  # A held block falls when the opening exceeds this
OPEN = 0.9  # The gripper has let go for good when the opening reaches this
INSIDE_RADIUS = TRAY_RADIUS - 2**0.5 * BLOCK_HALF  # The block is inside when this near


class TrayTask:
    """A batch of worlds: `reset` takes up to `num_worlds` seeds, `step` one action for each."""

    fps = FPS
    instruction = INSTRUCTION

    def __init__(self, num_worlds: int = 1, frame_size: int | None = None) -> None:
        self.num_worlds = num_worlds
        self.frame_size = frame_size
        self._worlds = _Worlds.from_seeds([])

    def reset(self, seeds: Sequence[int]) -> dict[str, np.ndarray]:
        """Begin one new world per seed and observe them."""
        assert len(seeds) <= self.num_worlds, f"{len(seeds)} seeds for {self.num_worlds} worlds"
        self._worlds = _Worlds.from_seeds(seeds)
        return self._observation()

    def step(self, action: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
        """Observation, reward and success of every world after one action each."""
        worlds = self._worlds
        action = np.asarray(action, dtype=np.float64)
        assert np.isfinite(action).all(), "an action is NaN or Inf"
        worlds.move(action[:, :2])
        worlds.turn_fingers(action[:, 2])
        success = worlds.done()
        reward = np.where(success, 1.0, np.where(worlds.held, 0.5, 0.0))
        return self._observation(), reward.astype(np.float32), success

    def render(self, size: int, worlds: Sequence[int] | None = None) -> np.ndarray:
        """Images (worlds, size, size, 3) of all worlds, or of those given by position."""
        chosen = list(range(len(self._worlds.held)) if worlds is None else worlds)
        return draw_scene(self._worlds.scene(chosen), size)

    def _observation(self) -> dict[str, np.ndarray]:
        worlds = self._worlds
        state = np.column_stack([worlds.gripper, worlds.height, worlds.opening])
        observation = {
            STATE: state.astype(np.float32),
            ENVIRONMENT_STATE: np.hstack([worlds.block, worlds.tray]).astype(np.float32),
        }
        if self.frame_size is not None:
            observation[CAMERA] = self.render(self.frame_size)
        return observation


def features(frame_size: int, video: bool = True) -> dict[str, dict[str, Any]]:
    """Features of a dataset of this task, in LeRobot's form."""
    places = ["block_x", "block_y", "tray_x", "tray_y"]
    return {
        STATE: {"dtype": "float32", "shape": (4,), "names": ["x", "y", "height", "opening"]},
        ENVIRONMENT_STATE: {"dtype": "float32", "shape": (4,), "names": places},
        CAMERA: {
            "dtype": "video" if video else "image",
            "shape": (frame_size, frame_size, 3),
            "names": ["height", "width", "channels"],
        },
        ACTION: {"dtype": "float32", "shape": (3,), "names": ["x", "y", "opening"]},
        "next.reward": {"dtype": "float32", "shape": (1,), "names": None},
        "next.done": {"dtype": "bool", "shape": (1,), "names": None},
        "next.success": {"dtype": "bool", "shape": (1,), "names": None},
    }


@dataclass
class _Worlds:
    """The worlds' variables, the first axis being the world."""

    gripper: np.ndarray
    opening: np.ndarray
    block: np.ndarray
    tray: np.ndarray
    held: np.ndarray
    height: np.ndarray  # The hand rises by itself with a held block: 0 low, 1 high

    @classmethod
    def from_seeds(cls, seeds: Sequence[int]) -> "_Worlds":
        layouts = np.array([_layout(seed) for seed in seeds]).reshape(-1, 7)
        num_worlds = len(seeds)
        return cls(
            gripper=layouts[:, 0:2],
            opening=layouts[:, 6],
            block=layouts[:, 2:4],
            tray=layouts[:, 4:6],
            held=np.zeros(num_worlds, dtype=bool),
            height=np.zeros(num_worlds),
        )

    def move(self, target: np.ndarray) -> None:
        way = RESPONSE * (np.clip(target, -REACH, REACH) - self.gripper)
        length = np.maximum(distance(way, np.zeros(2)), 1e-12)
        self.gripper = self.gripper + way * np.minimum(1.0, MAX_TRAVEL / length)[:, None]
        self.block = np.where(self.held[:, None], self.gripper, self.block)
        self.height = self.height + 0.5 * (self.held - self.height)

    def turn_fingers(self, target: np.ndarray) -> None:
        """Open or close the fingers; closing around a block holds it, opening lets it go."""
        change = np.clip(target, 0.0, 1.0) - self.opening
        opening = self.opening + np.clip(change, -MAX_OPENING_CHANGE, MAX_OPENING_CHANGE)
        closing = (self.opening > BLOCK_OPENING) & (opening <= BLOCK_OPENING)
        grasped = closing & (distance(self.gripper, self.block) <= GRASP_RADIUS)
        self.held = (self.held & (opening <= RELEASE_OPENING)) | grasped
        self.opening = np.where(self.held, np.maximum(opening, BLOCK_OPENING), opening)
        # Fingers that close around the block center it.
        self.block = np.where(self.held[:, None], self.gripper, self.block)

    def done(self) -> np.ndarray:
        inside = distance(self.block, self.tray) <= INSIDE_RADIUS
        done: np.ndarray = inside & ~self.held & (self.opening >= OPEN)
        return done

    def scene(self, chosen: list[int]) -> Scene:
        return Scene(
            gripper=self.gripper[chosen],
            opening=self.opening[chosen],
            block=self.block[chosen],
            tray=self.tray[chosen],
            height=self.height[chosen],
        )


def distance(points: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Straight distances between points, along the last axis."""
    # Not hypot, whose last bit differs between platforms.
    distances: np.ndarray = np.sqrt(np.square(points - others).sum(axis=-1))
    return distances


def _layout(seed: int) -> np.ndarray:
    """How a world begins: gripper, block and tray, which lie apart, and opening."""
    random = np.random.default_rng(derive_seed(seed, "tray layout"))
    gripper = random.uniform((-0.5, -0.75), (0.5, -0.5))
    while True:
        block, tray = random.uniform((-0.7, -0.35), (0.7, 0.7), size=(2, 2))
        if distance(block, tray) > 0.55:
            return np.concatenate([gripper, block, tray, random.uniform(0, 1, size=1)])
