"""A scripted expert for both ALOHA tasks: grippers follow waypoints by inverse kinematics.

Seeds vary its timing and where it grasps, as a human operator would.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from manyhands.rng import derive_seed
from manyhands.sim.aloha import AlohaEnvironment
from manyhands.sim.gym import imported

Frame = dict[str, Any]
"""One row of a dataset: numpy values by LeRobot key, and the task."""

TIP = 0.13
"""Distance of the fingertips from the gripper's link, in meters."""
START = (0.0, -0.96, 1.16, 0.0, -0.3, 0.0)
"""Joints of an arm at the start of an episode."""
OPEN, SHUT = 1.0, 0.0
PITCH = 60.0
"""Degrees by which a gripper that picks something up points downward."""
MEETING = np.array([0.0, 0.5, 0.27])
"""Where both grippers meet."""
DAMPING, MAX_TURN, MAX_ITERATIONS, PRECISION = 1e-4, 0.2, 20, 1e-4
HEIGHTS = {"cube": 0.02, "peg": 0.01, "socket": 0.022}
"""Centers of objects that lie on the table."""
GRASP_SPREAD, TIME_SPREAD = 0.003, 0.1
LIFTED = 150.0
"""Step at which an object is off the table."""
CORRECTION = 0.06
"""Part of an object's deviation that is corrected at each step."""


@dataclass(frozen=True)
class Waypoint:
    """Where the fingertips are at a step, how the gripper is turned, and how far it is open."""

    step: float
    place: np.ndarray
    turn: np.ndarray
    """Rotation matrix of the gripper; its first axis points along the fingers."""
    opening: float


@dataclass(frozen=True)
class Plan:
    """The waypoints of an arm, and the object that it holds between two steps."""

    waypoints: list[Waypoint]
    held: str | None = None
    holds: tuple[float, float] = (0, 0)


class Arm:
    """The joints of one arm that bring its fingertips to a pose."""

    def __init__(self, physics: Any, side: str) -> None:
        self._mujoco = imported("mujoco")
        self._model = physics.model.ptr
        self._data = self._mujoco.MjData(self._model)
        kind = self._mujoco.mjtObj.mjOBJ_BODY
        self._link = self._mujoco.mj_name2id(self._model, kind, f"vx300s_{side}/gripper_link")
        first = 0 if side == "left" else 8
        self._columns = np.arange(first, first + len(START))
        self._lowest, self._highest = self._model.jnt_range[self._columns].T
        self.joints = np.array(START)

    def pose(self) -> tuple[np.ndarray, np.ndarray]:
        """Place of the fingertips and rotation of the gripper for the current joints."""
        self._data.qpos[self._columns] = self.joints
        self._mujoco.mj_kinematics(self._model, self._data)
        self._mujoco.mj_comPos(self._model, self._data)
        turn = self._data.xmat[self._link].reshape(3, 3).copy()
        return self._data.xpos[self._link] + TIP * turn[:, 0], turn

    def reach(self, place: np.ndarray, turn: np.ndarray) -> np.ndarray:
        """The joints for a pose near the current one, by damped least squares."""
        for _ in range(MAX_ITERATIONS):
            tip, current = self.pose()
            error = np.concatenate([place - tip, rotation_vector(turn @ current.T)])
            if np.abs(error).max() < PRECISION:
                break
            jacobian = np.zeros((6, self._model.nv))
            self._mujoco.mj_jac(
                self._model, self._data, jacobian[:3], jacobian[3:], tip, self._link
            )
            own = jacobian[:, self._columns]
            change = own.T @ np.linalg.solve(own @ own.T + DAMPING * np.eye(6), error)
            limited = self.joints + np.clip(change, -MAX_TURN, MAX_TURN)
            self.joints = np.clip(limited, self._lowest, self._highest)
        return self.joints.copy()


class AlohaExpert:
    """Solves the episode that an environment has begun."""

    def __init__(self, environment: AlohaEnvironment, seed: int) -> None:
        self._arms = {side: Arm(environment.physics, side) for side in ("left", "right")}
        habits = np.random.default_rng(derive_seed(seed, "aloha expert"))
        objects = environment.object_places
        starts = {side: Waypoint(0, *arm.pose(), SHUT) for side, arm in self._arms.items()}
        make = cube_plan if "cube" in objects else insertion_plan
        self._environment = environment
        self._plans = make(jittered(objects, habits), starts)
        self._pace = habits.uniform(1 - TIME_SPREAD, 1 + TIME_SPREAD)
        self._lifts = {side: np.zeros(3) for side in self._arms}

    def action(self, step: int) -> np.ndarray:
        """The joints and openings (14,) of both arms at a step, counted from 1."""
        parts: list[np.ndarray] = []
        objects = self._environment.object_places
        for side, arm in self._arms.items():
            plan = self._plans[side]
            target = between(plan.waypoints, step * self._pace)
            if plan.held is not None and plan.holds[0] <= step * self._pace <= plan.holds[1]:
                # Arms give way to gravity: what is held is brought to where it should be.
                self._lifts[side] += CORRECTION * (target.place - objects[plan.held])
            place = target.place + self._lifts[side]
            parts += [arm.reach(place, target.turn), np.array([target.opening])]
        return np.concatenate(parts).astype(np.float32)


Plans = dict[str, Plan]
Places = dict[str, np.ndarray]


def cube_plan(objects: Places, starts: dict[str, Waypoint]) -> Plans:
    """The right arm picks the cube up, and the left one takes it over in the air."""
    cube, down = objects["cube"], picking("right")
    aside, behind = moved(MEETING, x=-0.12), moved(MEETING, x=0.12, z=0.03)
    # Fingers that close from above and below do not meet those that close from the sides.
    rolled = rotation([1, 0, 0], 90)
    right = [
        *picked_up(starts["right"], cube, down),
        Waypoint(210, MEETING, down, SHUT),
        Waypoint(270, MEETING, down, SHUT),
        Waypoint(285, MEETING, down, OPEN),
        Waypoint(330, behind, down, OPEN),
    ]
    left = [
        starts["left"],
        Waypoint(120, starts["left"].place, starts["left"].turn, SHUT),
        Waypoint(190, aside, rolled, OPEN),
        Waypoint(215, aside, rolled, OPEN),
        Waypoint(250, MEETING, rolled, OPEN),
        Waypoint(265, MEETING, rolled, SHUT),
        Waypoint(340, aside, rolled, SHUT),
    ]
    return {"left": Plan(left), "right": Plan(right, "cube", (LIFTED, 250))}


def insertion_plan(objects: Places, starts: dict[str, Waypoint]) -> Plans:
    """Both arms pick their object up, align them in the air and push them together."""
    plans = {}
    for side, name, outward in (("left", "socket", -1.0), ("right", "peg", 1.0)):
        down = picking(side)
        apart, together = (moved(MEETING, x=outward * far) for far in (0.12, 0.035))
        waypoints = [
            *picked_up(starts[side], objects[name], down),
            Waypoint(220, apart, down, SHUT),
            Waypoint(270, apart, down, SHUT),
            Waypoint(350, together, down, SHUT),
        ]
        plans[side] = Plan(waypoints, name, (LIFTED, 350))
    return plans


def picked_up(start: Waypoint, place: np.ndarray, down: np.ndarray) -> list[Waypoint]:
    """Approach an object from above, grasp and lift it."""
    above, lifted = moved(place, z=0.09), moved(place, z=0.12)
    return [
        start,
        Waypoint(60, above, down, OPEN),
        Waypoint(90, place, down, OPEN),
        Waypoint(110, place, down, SHUT),
        Waypoint(LIFTED, lifted, down, SHUT),
    ]


def moved(place: np.ndarray, x: float = 0.0, z: float = 0.0) -> np.ndarray:
    """A place to the right of another one, or above it."""
    there: np.ndarray = place + np.array([x, 0.0, z])
    return there


def picking(side: str) -> np.ndarray:
    """The rotation of a gripper that picks something up from the table."""
    down = rotation([0, 1, 0], PITCH)
    return down if side == "left" else rotation([0, 0, 1], 180) @ down


def jittered(objects: Places, habits: np.random.Generator) -> Places:
    """Where an operator grasps the objects, which lie on the table."""
    spread = habits.uniform(-GRASP_SPREAD, GRASP_SPREAD, (len(objects), 2))
    return {
        name: np.array([place[0] + shift[0], place[1], HEIGHTS[name] + abs(shift[1])])
        for (name, place), shift in zip(objects.items(), spread, strict=True)
    }


def between(plan: Sequence[Waypoint], step: float) -> Waypoint:
    """The pose of a plan at a step, moving smoothly from one waypoint to the next."""
    for one, other in pairwise(plan):
        if step <= other.step:
            part = (step - one.step) / (other.step - one.step)
            smooth = part * part * (3 - 2 * part)
            turn = rotation_vector(other.turn @ one.turn.T) * smooth
            angle = np.linalg.norm(turn)
            turned = rotation(turn / angle, np.rad2deg(angle)) @ one.turn if angle else one.turn
            return Waypoint(
                step,
                one.place + (other.place - one.place) * smooth,
                turned,
                one.opening + (other.opening - one.opening) * smooth,
            )
    return plan[-1]


def rotation(axis: Sequence[float] | np.ndarray, degrees: float) -> np.ndarray:
    """The rotation matrix about a unit axis."""
    x, y, z = axis
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    angle = np.deg2rad(degrees)
    turn: np.ndarray = np.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * cross @ cross
    return turn


def rotation_vector(turn: np.ndarray) -> np.ndarray:
    """Axis times angle of a rotation matrix of less than half a turn."""
    axis = np.array([turn[2, 1] - turn[1, 2], turn[0, 2] - turn[2, 0], turn[1, 0] - turn[0, 1]])
    sine, cosine = np.linalg.norm(axis) / 2, (np.trace(turn) - 1) / 2
    vector: np.ndarray = axis / 2 * (np.arctan2(sine, cosine) / sine if sine > 1e-9 else 1.0)
    return vector


def expert_frames(environment: AlohaEnvironment, seed: int, num_steps: int) -> Iterator[Frame]:
    """The rows of one episode of full length: success does not end it."""
    environment.reset(seed)
    expert = AlohaExpert(environment, seed)
    for step in range(1, num_steps + 1):
        frame: Frame = {**environment.observe(), "task": environment.instruction}
        action = expert.action(step)
        outcome = environment.step(action)
        yield frame | {
            "action": action,
            "next.reward": np.array([outcome.reward], np.float32),
            "next.success": np.array([outcome.success]),
            "next.done": np.array([step == num_steps]),
        }
