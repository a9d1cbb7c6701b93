"""The scripted ALOHA expert: rotations, plans, and both tasks solved in the simulator."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyhands.config.sections.env import ALOHA_TASKS, AlohaEnvConfig
from manyhands.sim.aloha_expert import (
    OPEN,
    SHUT,
    AlohaExpert,
    Waypoint,
    between,
    expert_frames,
    rotation,
    rotation_vector,
)

NUM_STEPS = 400
angles = st.floats(-170, 170)
axes = st.tuples(*[st.floats(-1, 1)] * 3).filter(lambda axis: np.linalg.norm(axis) > 0.1)


@given(axes, angles)
def test_a_rotation_is_found_again_as_axis_and_angle(axis, degrees):
    unit = np.array(axis) / np.linalg.norm(axis)
    turn = rotation(unit, degrees)
    assert np.allclose(turn @ turn.T, np.eye(3), atol=1e-12)
    assert np.allclose(rotation_vector(turn), np.deg2rad(degrees) * unit, atol=1e-6)


def test_a_gripper_moves_smoothly_from_one_waypoint_to_the_next_and_stays_at_the_last():
    plan = [
        Waypoint(0, np.zeros(3), np.eye(3), OPEN),
        Waypoint(10, np.array([1.0, 0, 0]), rotation([0, 0, 1], 90), SHUT),
    ]
    middle, end = between(plan, 5), between(plan, 99)
    assert np.allclose(middle.place, [0.5, 0, 0])
    assert np.allclose(middle.turn, rotation([0, 0, 1], 45))
    assert middle.opening == 0.5
    assert end is plan[-1]


@pytest.fixture(params=ALOHA_TASKS)
def environment(request):
    pytest.importorskip("gym_aloha", reason="the extra sim is not installed")
    from manyhands.sim.aloha import AlohaEnvironment

    return AlohaEnvironment(AlohaEnvConfig(task=request.param), {"observation.state": (14,)})


def test_the_expert_solves_both_tasks(environment):
    for seed in (1, 2):
        rows = list(expert_frames(environment, seed, NUM_STEPS))
        assert len(rows) == NUM_STEPS
        assert any(row["next.success"][0] for row in rows)
        assert rows[-1]["next.done"][0] and not rows[-2]["next.done"][0]


def test_arms_reach_what_they_are_asked_for(environment):
    environment.reset(3)
    expert = AlohaExpert(environment, 3)
    for step in (1, 60, 120):
        for arm in expert._arms.values():
            place, turn = arm.pose()
            target = place + np.array([0.0, 0.01, 0.005])
            arm.reach(target, turn)
            assert np.abs(arm.pose()[0] - target).max() < 1e-3
        expert.action(step)


def test_seeds_vary_the_operator(environment):
    environment.reset(3)
    one, other = (AlohaExpert(environment, seed).action(80) for seed in (1, 2))
    assert not np.array_equal(one, other)
    assert np.array_equal(one, AlohaExpert(environment, 1).action(80))
