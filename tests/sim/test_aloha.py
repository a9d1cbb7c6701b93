"""ALOHA by its published protocol; images of the cameras that a policy reads."""

import numpy as np
import pytest

from manyhands.config.sections.env import ALOHA_TASKS, AlohaEnvConfig
from manyhands.errors import EnvironmentFault, UserError
from manyhands.sim.aloha import CAMERAS, STATE, AlohaEnvironment

TOP, ANGLE = "observation.images.top", "observation.images.angle"
SEED = 1000


@pytest.fixture(autouse=True)
def gym_aloha():
    return pytest.importorskip("gym_aloha", reason="pip install 'manyhands[sim]'")


def begun(inputs, task="AlohaTransferCube-v0"):
    environment = AlohaEnvironment(AlohaEnvConfig(task=task), inputs)
    environment.reset(SEED)
    return environment


@pytest.fixture
def seeing():
    environment = begun({STATE: (14,), ANGLE: (3, 24, 32)})
    try:
        environment.render()
    except EnvironmentFault as fault:
        pytest.skip(str(fault))
    return environment


@pytest.mark.parametrize("task", ALOHA_TASKS)
def test_an_episode_is_that_of_a_plain_loop(task):
    gymnasium = pytest.importorskip("gymnasium")
    environment = begun({STATE: (14,)}, task)
    plain = gymnasium.make(f"gym_aloha/{task}", obs_type="pixels_agent_pos").unwrapped
    # Without its images, which need a library for rendering.
    inner = plain._env.task
    images = dict.fromkeys(("top", "angle", "vis"), np.empty(0))
    inner.get_observation = lambda physics: {"qpos": inner.get_qpos(physics), "images": images}
    values, _ = plain.reset(seed=SEED)
    rest = values["agent_pos"].astype(np.float32)
    for shift in (0.0, 0.02, 0.04):
        values, reward, *_ = plain.step(rest + shift)
        assert environment.step(rest + shift) == (reward, reward == 4, reward == 4)
        seen = environment.observe()[STATE]
        assert (seen == values["agent_pos"].astype(np.float32)).all()


@pytest.mark.parametrize("task", ALOHA_TASKS)
def test_an_episode_does_not_depend_on_the_one_before_it(task):
    first, second = begun({STATE: (14,)}, task), begun({STATE: (14,)}, task)
    rest = first.observe()[STATE]
    for _ in range(5):
        second.step(rest + 0.3)
    second.reset(SEED)
    for shift in np.linspace(0, 0.3, 8, dtype=np.float32):
        assert (first.observe()[STATE] == second.observe()[STATE]).all()
        assert first.step(rest + shift) == second.step(rest + shift)
        poses = [each._env.unwrapped._env.physics.data.qpos for each in (first, second)]
        assert (poses[0] == poses[1]).all()


def test_success_is_a_reward_of_four(monkeypatch):
    environment = begun({STATE: (14,)})
    task = environment._env.unwrapped._env.task
    for reward in (3, 4):
        monkeypatch.setattr(task, "get_reward", lambda physics, reward=reward: reward)
        outcome = environment.step(np.zeros(14, np.float32))
        assert outcome == (reward, reward == 4, reward == 4)


def test_an_episode_takes_400_steps_at_50_hz():
    assert (AlohaEnvConfig().episode_length, AlohaEnvConfig().fps) == (400, 50)


def test_images_have_the_size_that_the_policy_reads(seeing):
    seen = seeing.observe()
    assert {name: value.shape for name, value in seen.items()} == {
        STATE: (14,),
        ANGLE: (24, 32, 3),
    }
    assert seen[ANGLE].dtype == np.uint8 and seen[ANGLE].std() > 0


def test_cameras_show_what_those_of_gym_aloha_show():
    sizes = {f"observation.images.{camera}": (3, 480, 640) for camera in CAMERAS}
    environment = begun(sizes)
    task = environment._env.unwrapped._env.task
    expected = type(task).get_observation(task, environment.physics)["images"]
    for name, image in environment.observe().items():
        assert (image == expected[name.rpartition(".")[2]]).all()


def test_only_cameras_that_the_policy_reads_are_rendered(seeing, monkeypatch):
    physics = seeing._env.unwrapped._env.physics
    cameras = []
    render = physics.render
    monkeypatch.setattr(
        physics, "render", lambda **size: cameras.append(size["camera_id"]) or render(**size)
    )
    for _ in range(3):
        seeing.step(np.zeros(14, np.float32))
    assert cameras == []
    seeing.observe()
    assert cameras == ["angle"]


def test_missing_libraries_for_rendering_are_named(monkeypatch):
    environment = begun({STATE: (14,)})

    def render(**_):
        raise ImportError("libEGL.so.1")

    monkeypatch.setattr(environment._env.unwrapped._env.physics, "render", render)
    with pytest.raises(EnvironmentFault, match=r"apt-get install libegl1.*MUJOCO_GL=osmesa"):
        environment.render()


def test_a_camera_that_does_not_exist_is_refused():
    with pytest.raises(UserError, match=r"does not give observation\.images\.wrist"):
        begun({"observation.images.wrist": (3, 24, 32)})
