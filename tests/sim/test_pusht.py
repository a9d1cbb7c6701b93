"""PushT by its published protocol, with the same rewards every time."""

import numpy as np
import pytest

from manyhands.config.sections.env import PushtEnvConfig
from manyhands.errors import EnvironmentFault
from manyhands.sim.episode import Act, Begin, Episode, EpisodeSetup
from manyhands.sim.pusht import CAMERA, ENVIRONMENT_STATE, STATE, PushtEnvironment
from manyhands.sim.slot import POLL_S, ProcessSlot, answer, finished_slots

VECTORS = {STATE: (2,), ENVIRONMENT_STATE: (16,)}
SEED = 1003
NUM_STEPS = 40


@pytest.fixture(autouse=True)
def gym_pusht():
    return pytest.importorskip("gym_pusht", reason="pip install 'manyhands[sim]'")


@pytest.fixture
def plain():
    """The environment as LeRobot makes it."""
    gymnasium = pytest.importorskip("gymnasium")
    return gymnasium.make("gym_pusht/PushT-v0", obs_type="pixels_agent_pos")


def pushes(environment):
    """Actions that go through the block, from where it is."""
    pose = np.array(environment._env.block.position)
    around = np.random.default_rng(0).uniform(-80, 80, (NUM_STEPS, 2))
    return (pose + around).astype(np.float32)


def begun(inputs=VECTORS):
    environment = PushtEnvironment(PushtEnvConfig(), inputs)
    environment.reset(SEED)
    return environment


def test_rewards_and_observations_are_those_of_a_plain_loop(plain):
    environment = begun({STATE: (2,), CAMERA: (3, 96, 96)})
    values, _ = plain.reset(seed=SEED)
    for action in pushes(environment):
        seen = environment.observe()
        assert (seen[STATE] == values["agent_pos"].astype(np.float32)).all()
        assert (seen[CAMERA] == values["pixels"]).all()
        values, reward, _, _, info = plain.step(action)
        outcome = environment.step(action)
        assert outcome.reward == pytest.approx(reward, abs=1e-12)
        assert outcome.success == info["is_success"]
    assert outcome.reward > 0


def test_an_episode_takes_300_steps_at_10_hz():
    config = PushtEnvConfig()
    episode = Episode(EpisodeSetup(config, VECTORS))
    episode.run(Begin(SEED))
    segment = episode.run(Act(np.full((400, 2), 20, np.float32)))
    assert (len(segment.rewards), segment.ended, segment.success) == (300, True, False)
    assert config.fps == 10


@pytest.mark.parametrize("shift", [0.0, 1.8, 2.0, 40.0])
def test_success_is_coverage_above_95_percent(shift):
    environment = begun()
    x, y, angle = environment._env.goal_pose
    block, agent = environment._env.block, environment._env.agent
    block.angle, block.position, agent.position = angle, (x + shift, y), (30, 30)
    outcome = environment.step(np.array([30.0, 30.0]))
    coverage = environment._coverage()
    assert outcome.reward == min(1.0, coverage / 0.95)
    assert outcome.success == outcome.ended == (coverage > 0.95)
    assert outcome.success == (shift < 1.9)


@pytest.mark.parametrize("size", [(96, 96), (64, 80)])
def test_images_have_the_size_that_the_policy_reads(size):
    seen = begun({CAMERA: (3, *size)}).observe()
    assert seen[CAMERA].shape == (*size, 3)
    assert seen[CAMERA].dtype == np.uint8


def test_images_are_rendered_only_when_they_are_read(monkeypatch):
    blind, seeing = begun(), begun({CAMERA: (3, 96, 96)})
    drawn = []
    for environment in (blind, seeing):
        draw = environment._env._draw
        monkeypatch.setattr(environment._env, "_draw", lambda draw=draw: drawn.append(1) or draw())
        for action in pushes(environment)[:5]:
            environment.step(action)
    assert not drawn
    blind.observe()
    assert not drawn
    seeing.observe()
    assert len(drawn) == 1


def test_films_have_the_size_of_the_flags():
    config = PushtEnvConfig(visualization_width=64, visualization_height=48)
    environment = PushtEnvironment(config, VECTORS)
    environment.reset(SEED)
    assert environment.render().shape == (48, 64, 3)


def test_an_episode_does_not_depend_on_the_one_before_it():
    first, second = begun({CAMERA: (3, 96, 96)}), begun({CAMERA: (3, 96, 96)})
    actions = pushes(first)
    for action in actions[:9]:
        second.step(action)
    second.reset(SEED)
    for action in actions:
        assert (first.render() == second.render()).all()
        assert (first.observe()[CAMERA] == second.observe()[CAMERA]).all()
        assert first.step(action) == second.step(action)


def test_rewards_have_the_same_bits_again_and_in_several_processes():
    actions = pushes(begun())
    setup = EpisodeSetup(PushtEnvConfig(), VECTORS)
    here = Episode(setup)
    expected = []
    for _ in range(2):
        here.run(Begin(SEED))
        expected.append(here.run(Act(actions)).rewards)
    slots = [ProcessSlot(setup, 120.0) for _ in range(3)]
    for slot in slots:
        answer(slot, Begin(SEED))
    for slot in slots:
        slot.send(Act(actions))
    found = []
    for slot in slots:
        while (segment := slot.result()) is None:
            finished_slots([slot], POLL_S)
        found.append(segment.rewards)
        slot.close()
    assert {*expected, *found} == {expected[0]}


def test_a_pymunk_that_lacks_what_is_called_is_named(monkeypatch):
    pymunk = pytest.importorskip("pymunk")
    environment = begun()
    monkeypatch.delattr(pymunk.Space, "add_collision_handler")
    with pytest.raises(EnvironmentFault, match=f"pymunk {pymunk.version}: .*'pymunk<7'"):
        environment.reset(SEED)


def test_coverage_does_not_depend_on_the_order_of_the_shapes_of_the_block(monkeypatch):
    environment = begun()
    block, goal = environment._env.block, environment._env.goal_pose
    shapes = sorted(block.shapes, key=id)
    found = []
    for turn, *shift in np.random.default_rng(0).normal(size=(50, 3)):
        block.angle, block.position = goal[2] + turn / 2, tuple(goal[:2] + 30 * np.array(shift))
        for order in (shapes, shapes[::-1]):
            with monkeypatch.context() as patch:
                patch.setattr(type(block), "shapes", property(lambda _, order=order: order))
                found.append(environment._coverage())
    assert found[::2] == found[1::2]
    assert len(set(found)) > 40
