"""A scripted expert that solves the tray task, with the small variations of a human operator."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from manyhands.rng import derive_seed
from manyhands.sim.tray import task
from manyhands.sim.tray.drawing import BLOCK_OPENING
from manyhands.sim.tray.task import TrayTask, distance

ON_BLOCK = 0.025  # The fingers close when the gripper is this near to the block
OVER_TRAY = 0.05  # They open when it is this near to its spot in the tray
CARRIED = 0.7  # Height at which a block is carried away; waiting for it makes a late grasp harmless
MISPLACEMENT = 0.04  # How far an operator's spot lies from the middle of the tray, along each axis
EPISODES_AT_ONCE = 32  # Drawing many worlds together is several times faster than one by one

Frame = dict[str, Any]  # One row of a dataset: numpy values by LeRobot key, and the task


class Expert:
    """An operator per world, with a pace, a bend of the path and a favorite spot in the tray."""

    def __init__(self, seeds: Sequence[int]) -> None:
        habits = np.array([_habits(seed) for seed in seeds])
        self._pace, self._bend, self._spot = habits[:, 0], habits[:, 1], habits[:, 2:]

    def action(self, observation: dict[str, np.ndarray]) -> np.ndarray:
        """The next action of every world, from what a policy could observe too."""
        state = observation[task.STATE].astype(np.float64)
        places = observation[task.ENVIRONMENT_STATE].astype(np.float64)
        gripper, height, opening = state[:, :2], state[:, 2], state[:, 3]
        block, tray = places[:, :2], places[:, 2:]

        held = (distance(gripper, block) < 1e-3) & (opening <= task.RELEASE_OPENING)
        placed = ~held & (distance(block, tray) <= task.INSIDE_RADIUS)
        goal = np.where(held[:, None], tray + self._spot, block)
        arrived = distance(gripper, goal) < np.where(held, OVER_TRAY, ON_BLOCK)
        waiting = placed | (held & (height < CARRIED))
        goal = np.where(waiting[:, None], gripper, goal)
        # Fingers that shut on nothing must open again before they can close around the block.
        missed = ~held & (opening < BLOCK_OPENING)
        close = np.where(held, ~arrived, arrived & ~missed & ~placed)
        return np.column_stack([self._advance(gripper, goal), 1.0 - close]).astype(np.float32)

    def _advance(self, gripper: np.ndarray, goal: np.ndarray) -> np.ndarray:
        """A target that makes the gripper glide to its goal along a bent path, slowing down."""
        way = goal - gripper
        length = np.maximum(distance(gripper, goal), 1e-9)
        travel = np.minimum(np.minimum(self._pace, 0.3 * length + 0.005), length)
        angle = self._bend * np.minimum(length, 1.0)
        turned = np.column_stack(
            [
                np.cos(angle) * way[:, 0] - np.sin(angle) * way[:, 1],
                np.sin(angle) * way[:, 0] + np.cos(angle) * way[:, 1],
            ]
        )
        target: np.ndarray = gripper + turned * (travel / length / task.RESPONSE)[:, None]
        return target


def record_episodes(seeds: Sequence[int], frame_size: int) -> Iterator[list[Frame]]:
    """The expert's episode of every seed, as frames that a dataset stores."""
    for start in range(0, len(seeds), EPISODES_AT_ONCE):
        yield from _record_together(seeds[start : start + EPISODES_AT_ONCE], frame_size)


def _record_together(seeds: Sequence[int], frame_size: int) -> list[list[Frame]]:
    environment, expert = TrayTask(len(seeds)), Expert(seeds)
    episodes: list[list[Frame]] = [[] for _ in seeds]
    running = list(range(len(seeds)))
    observation = environment.reset(seeds)
    for step in range(task.MAX_STEPS):
        pictures = environment.render(frame_size, running)
        action = expert.action(observation)
        seen = observation
        observation, reward, success = environment.step(action)
        done = success | (step == task.MAX_STEPS - 1)
        for world, picture in zip(running, pictures, strict=True):
            frame = {name: values[world] for name, values in seen.items()}
            frame |= {task.CAMERA: picture, task.ACTION: action[world], "task": task.INSTRUCTION}
            outcome = {"reward": reward, "done": done, "success": success}
            frame |= {f"next.{name}": values[[world]] for name, values in outcome.items()}
            episodes[world].append(frame)
        running = [world for world in running if not done[world]]
        if not running:
            break
    return episodes


def _habits(seed: int) -> np.ndarray:
    """Pace (length per step), bend (radians at distance 1) and spot in the tray of one operator."""
    random = np.random.default_rng(derive_seed(seed, "tray expert"))
    pace = random.uniform(0.05, 0.07)
    bend = random.uniform(-0.4, 0.4)
    return np.array([pace, bend, *random.uniform(-MISPLACEMENT, MISPLACEMENT, size=2)])
