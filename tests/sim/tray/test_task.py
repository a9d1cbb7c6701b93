"""The tray task: what happens follows from the seed and the actions alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manyhands.sim.tray import task
from manyhands.sim.tray.drawing import BLOCK_OPENING
from manyhands.sim.tray.expert import Expert
from manyhands.sim.tray.task import TrayTask

WIDE, SHUT = 1.0, 0.0


def drive(environment: TrayTask, target: np.ndarray, opening: float, steps: int):
    """Hold one command for some steps and return what the last one gave."""
    action = np.column_stack([target, np.full(len(target), opening)])
    for _ in range(steps):
        outcome = environment.step(action)
    return outcome


def places(observation: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Positions of block and tray."""
    return np.split(observation[task.ENVIRONMENT_STATE], 2, axis=1)


def rollout_states(seeds: list[int], actions: np.ndarray) -> list[np.ndarray]:
    """Everything observed, apart from pictures, under given actions (steps, worlds, 3)."""
    environment = TrayTask(len(seeds))
    environment.reset(seeds)
    seen = []
    for action in actions:
        observation, reward, success = environment.step(action)
        seen.append(np.column_stack([*observation.values(), reward, success]))
    return seen


@settings(max_examples=20)
@given(
    st.lists(st.integers(0, 2**40), min_size=1, max_size=6, unique=True), st.integers(0, 2**32 - 1)
)
def test_a_world_does_not_depend_on_the_worlds_beside_it(seeds, noise):
    actions = np.random.default_rng(noise).uniform(-1.2, 1.2, size=(25, len(seeds), 3))
    together = rollout_states(seeds, actions)
    for world, seed in enumerate(seeds):
        alone = rollout_states([seed], actions[:, [world]])
        np.testing.assert_array_equal([step[0] for step in alone], [s[world] for s in together])


def test_pictures_do_not_depend_on_the_worlds_beside_them():
    together, alone = TrayTask(5), TrayTask(1)
    together.reset([3, 1, 4, 5, 9])
    alone.reset([4])
    np.testing.assert_array_equal(together.render(48)[2], alone.render(48)[0])
    np.testing.assert_array_equal(together.render(48, [2])[0], alone.render(48)[0])


def test_observations_have_the_promised_names_and_types():
    observation = TrayTask(3, frame_size=32).reset([0, 1, 2])
    spec = task.features(frame_size=32)
    assert set(observation) == {name for name in spec if name.startswith("observation.")}
    for name, values in observation.items():
        assert values.shape == (3, *spec[name]["shape"])
    assert observation[task.CAMERA].dtype == np.uint8
    assert observation[task.STATE].dtype == observation[task.ENVIRONMENT_STATE].dtype == np.float32
    assert task.CAMERA not in TrayTask(3).reset([0, 1, 2])


def test_block_and_tray_begin_apart_and_within_reach():
    block, tray = places(TrayTask(500).reset(list(range(500))))
    assert task.distance(block, tray).min() > 0.5
    assert np.abs([block, tray]).max() < task.REACH
    assert len(np.unique(block, axis=0)) == 500


def test_the_gripper_never_moves_faster_than_its_limit_nor_leaves_its_reach():
    environment = TrayTask(1)
    before = environment.reset([7])[task.STATE]
    for _ in range(40):
        after = environment.step(np.array([[5.0, 5.0, SHUT]]))[0][task.STATE]
        assert task.distance(after[:, :2], before[:, :2])[0] <= task.MAX_TRAVEL + 1e-6
        assert abs(after[0, 3] - before[0, 3]) <= task.MAX_OPENING_CHANGE + 1e-6
        before = after
    np.testing.assert_allclose(after, [[task.REACH, task.REACH, 0, SHUT]], atol=1e-6)


def test_a_block_can_be_grasped_carried_and_released_into_the_tray():
    environment = TrayTask(4)
    block, tray = places(environment.reset([0, 1, 2, 3]))
    drive(environment, block, WIDE, 40)
    observation, reward, success = drive(environment, block, SHUT, 5)
    np.testing.assert_allclose(observation[task.STATE][:, 3], BLOCK_OPENING)
    assert (reward == 0.5).all()
    assert not success.any()

    observation, _, success = drive(environment, tray, SHUT, 40)
    np.testing.assert_allclose(places(observation)[0], tray, atol=1e-3)
    assert not success.any(), "a block still held is not yet placed"

    _, reward, success = drive(environment, tray, WIDE, 5)
    assert success.all()
    assert (reward == 1.0).all()


def test_fingers_that_close_beside_the_block_or_arrive_shut_do_not_hold_it():
    environment = TrayTask(1)
    block, _ = places(environment.reset([0]))
    beside = block + np.array([[0.0, 1.3 * task.GRASP_RADIUS]])
    drive(environment, beside, WIDE, 40)
    _, reward, _ = drive(environment, beside, SHUT, 8)
    assert reward[0] == 0.0

    observation, reward, _ = drive(environment, block, SHUT, 20)
    assert reward[0] == 0.0
    np.testing.assert_array_equal(places(observation)[0], block)


def test_a_block_dropped_outside_the_tray_stays_there_and_is_no_success():
    environment = TrayTask(1)
    block, tray = places(environment.reset([0]))
    drive(environment, block, WIDE, 40)
    drive(environment, block, SHUT, 5)
    halfway = (block + tray) / 2
    drive(environment, halfway, SHUT, 40)
    drive(environment, halfway, WIDE, 5)
    observation, _, success = drive(environment, tray, WIDE, 40)
    np.testing.assert_allclose(places(observation)[0], halfway, atol=1e-3)
    assert not success.any()


def test_random_actions_never_succeed():
    seeds = list(range(200))
    environment, random = TrayTask(len(seeds)), np.random.default_rng(0)
    environment.reset(seeds)
    succeeded = np.zeros(len(seeds), dtype=bool)
    for _ in range(task.MAX_STEPS):
        succeeded |= environment.step(random.uniform(-1, 1, size=(len(seeds), 3)))[2]
    assert not succeeded.any()


def test_an_action_that_is_not_finite_is_refused():
    environment = TrayTask(1)
    environment.reset([0])
    with pytest.raises(AssertionError):
        environment.step(np.array([[np.nan, 0.0, 0.0]]))


def test_a_known_seed_gives_known_numbers():
    environment, expert = TrayTask(1), Expert([1])
    observation = environment.reset([1])
    for _ in range(20):
        observation, _, _ = environment.step(expert.action(observation))
    known = [0.426159, -0.003135, 0.75, 0.5]
    np.testing.assert_allclose(observation[task.STATE][0], known, atol=1e-5)
