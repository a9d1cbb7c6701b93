"""Registered environments: what a policy reads is found in their observations, or declared."""

import numpy as np
import pytest

from manyhands.config.sections.env import GymEnvConfig
from manyhands.errors import EnvironmentFault, UserError
from manyhands.sim.gym import GymEnvironment, SuccessEntry, action_size_of, as_frame, imported

STATE, GOAL = "observation.state", "observation.environment_state"
TOP = "observation.images.top"
KEYS = {GOAL: "world/goal", TOP: "world/top"}
INPUTS = {STATE: (4,), GOAL: (4,), TOP: (3, 8, 6)}


@pytest.fixture(autouse=True)
def gymnasium():
    return pytest.importorskip("gymnasium", reason="pip install 'manyhands[sim]'")


def point(inputs, **settings):
    config = GymEnvConfig(task="toys/Point-v0", package="toy_worlds", **settings)
    return GymEnvironment(config, inputs)


def test_nested_observations_are_read_by_declared_keys():
    environment = point(INPUTS, observation_keys=KEYS)
    environment.reset(3)
    seen = environment.observe()
    assert {name: (value.shape, value.dtype) for name, value in seen.items()} == {
        STATE: ((4,), np.float32),
        GOAL: ((4,), np.float32),
        TOP: ((8, 6, 3), np.uint8),
    }


def test_an_episode_is_that_of_a_plain_loop(gymnasium):
    environment = point({STATE: (4,)})
    plain = gymnasium.make("toys/Point-v0", disable_env_checker=True)
    environment.reset(5)
    plain.reset(seed=5)
    for action in np.random.default_rng(0).uniform(-1, 1, (6, 3)).astype(np.float32):
        outcome = environment.step(action)
        values, reward, _, _, info = plain.step(action)
        assert outcome == (reward, info["is_success"], info["is_success"])
        assert (environment.observe()[STATE] == values["agent_pos"].astype(np.float32)).all()


def test_the_entry_that_means_success_is_declared():
    usual, declared = point({STATE: (4,)}), point({STATE: (4,)}, success_key="arrived")
    for environment in (usual, declared):
        environment.reset(3)
    # The point of this seed is within the wider distance, not within the narrower.
    action = np.zeros(3, np.float32)
    assert usual.step(action)[1:] == (False, False)
    assert declared.step(action)[1:] == (True, True)


def test_a_success_entry_in_no_step_of_an_episode_is_refused_at_its_end():
    environment = point({STATE: (4,)}, success_key="success", episode_length=3)
    action = np.zeros(3, np.float32)
    for seed in (3, 4):
        environment.reset(seed)
        environment.step(action)
        environment.step(action)
        with pytest.raises(UserError) as caught:
            environment.step(action)
        assert str(caught.value) == (
            "--env.success_key=success is not in info, which has arrived, is_success. "
            "Set --env.success_key=is_success"
        )


@pytest.mark.parametrize(
    ("infos", "success"),
    [
        ([{}, {}, {"done": True}], True),
        ([{}, {}, {"done": np.False_}], False),
        ([{}, {}, {"final_info": {"done": np.array(True)}}], True),
        ([{"done": False}, {}, {"final_info": None}], False),
    ],
)
def test_a_success_entry_may_be_in_some_steps_only(infos, success):
    entry = SuccessEntry("done")
    assert [entry.of_step(info) for info in infos] == [False, False, success]
    entry.check()


@pytest.mark.parametrize(
    ("info", "told"),
    [
        ({}, "which is empty. Set --env.success_key=null"),
        ({"speed": 1, "place": 2}, "which has place, speed. Set --env.success_key=null"),
        ({"final_info": {"Success": 1}}, "Set --env.success_key=Success"),
    ],
)
def test_what_the_info_has_instead_of_success_is_named(info, told):
    entry = SuccessEntry("is_success")
    assert not entry.of_step(info)
    with pytest.raises(UserError, match=told):
        entry.check()
    entry.forget()
    assert entry.of_step({"is_success": True})


def test_without_a_success_entry_only_rewards_are_measured():
    environment = point({STATE: (4,)}, success_key=None, episode_length=1)
    environment.reset(3)
    assert environment.step(np.zeros(3, np.float32))[1:] == (False, False)


def test_a_number_becomes_a_discrete_action():
    config = GymEnvConfig(task="toys/Buttons-v0", package="toy_worlds", success_key=None)
    environment = GymEnvironment(config, {STATE: (4,)})
    environment.reset(9)
    assert (environment.observe()[STATE] == 9).all()
    assert environment.step(np.array([0.6], np.float32)) == (1.0, False, False)
    assert environment.step(np.array([2.2], np.float32)) == (2.0, False, True)


def test_the_size_of_actions_is_that_of_the_space(gymnasium):
    spaces = gymnasium.spaces
    for space, size in (
        (spaces.Discrete(3), 1),
        (spaces.Box(-1, 1, (2, 3)), 6),
        (spaces.MultiDiscrete([2, 5]), 2),
    ):
        assert action_size_of("toys/Any-v0", space) == size
    with pytest.raises(UserError, match="toys/Any-v0 takes actions of the space Dict"):
        action_size_of("toys/Any-v0", spaces.Dict(arm=spaces.Discrete(2)))


def test_a_mapping_is_proposed_for_an_input_that_is_not_found():
    with pytest.raises(UserError) as caught:
        point({TOP: (3, 8, 6)})
    told = str(caught.value)
    assert "the policy reads observation.images.top (3, 8, 6)" in told
    assert "Set --env.observation_keys={observation.images.top: world/top}" in told
    assert "The environment gives agent_pos (4,), world/goal (4,), world/top (8, 6, 3)" in told


def test_one_mapping_is_proposed_for_all_inputs_and_no_key_twice():
    with pytest.raises(UserError) as caught:
        point(INPUTS, observation_keys={STATE: "agent_pos"})
    mapping = "observation.state: agent_pos, observation.environment_state: world/goal"
    expected = f"--env.observation_keys={{{mapping}, observation.images.top: world/top}}"
    assert expected in str(caught.value)
    assert str(caught.value).count("--env.observation_keys") == 1


def test_a_key_for_an_input_that_the_policy_does_not_read_is_refused():
    with pytest.raises(UserError, match=r"names observation\.sate, which the policy does not read"):
        point({STATE: (4,)}, observation_keys={"observation.sate": "agent_pos"})


def test_cameras_that_a_policy_can_do_without_may_be_missing():
    wrist = "observation.images.wrist"
    config = GymEnvConfig(
        task="toys/Point-v0", package="toy_worlds", observation_keys={TOP: KEYS[TOP]}
    )
    inputs = {STATE: (4,), TOP: (3, 8, 6), wrist: (3, 8, 6)}
    environment = GymEnvironment(config, inputs, optional={TOP, wrist})
    environment.reset(3)
    assert environment.observe().keys() == {STATE, TOP}


def test_numbers_become_the_nearest_discrete_actions(gymnasium):
    environment = point({STATE: (4,)})
    environment._env.unwrapped.action_space = gymnasium.spaces.MultiDiscrete([2, 3, 3])
    taken = environment._as_taken(np.array([0.96, 1.99, 1.6], np.float32))
    assert taken.tolist() == [1, 2, 2]


def test_what_fits_nowhere_is_reported_with_the_shapes_that_there_are():
    with pytest.raises(UserError, match=r"observation_keys=\{observation\.state: <key>\}"):
        point({STATE: (9,)})


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"task": "toys/None-v0"}, "--env.task=toys/None-v0"),
        ({"task": "elsewhere/None-v0", "package": None}, "Set --env.package="),
        ({"task": "toys/Buttons-v0", "gym_kwargs": {"speed": 3}}, "Check --env.gym_kwargs"),
        ({"gym_kwargs": {"on_build": "no egl"}}, "apt-get install libegl1.*MUJOCO_GL=osmesa"),
        ({"package": "no_such_worlds"}, "--env.package=no_such_worlds is not installed"),
    ],
)
def test_mistakes_name_the_flag_to_change(settings, told):
    arguments = {"task": "toys/Point-v0", "package": "toy_worlds"} | settings
    with pytest.raises(UserError, match=told):
        GymEnvironment(GymEnvConfig(**arguments), {STATE: (4,)})


def test_a_task_that_cannot_render_is_named_without_a_flag_that_others_do_not_have():
    config = GymEnvConfig(
        task="toys/Point-v0", package="toy_worlds", gym_kwargs={"on_build": "no egl"}
    )
    with pytest.raises(EnvironmentFault, match=r"^toys/Point-v0 cannot render images"):
        GymEnvironment(config, {STATE: (4,)})


def test_a_missing_package_names_the_command_that_installs_it():
    with pytest.raises(
        EnvironmentFault, match=r"gym-none is missing.*pip install 'manyhands\[sim\]"
    ):
        imported("gym_none")


@pytest.mark.parametrize("shape", [(6, 8), (6, 8, 1), (6, 8, 3), (6, 8, 4)])
def test_rendered_images_become_frames_of_three_channels(shape):
    image = np.random.default_rng(0).integers(0, 255, shape, dtype=np.uint8)
    frame = as_frame(image, "the toy")
    assert (frame.shape, frame.dtype) == ((6, 8, 3), np.uint8)
    expected = image.reshape(6, 8, -1)[..., : 3 if image.ndim == 3 else 1]
    assert (frame == expected).all()


@pytest.mark.parametrize(
    ("image", "seen"),
    [
        (np.zeros((6, 8, 3), np.float32), r"float32 of shape \(6, 8, 3\)"),
        (np.zeros((3, 6, 8), np.uint8), r"uint8 of shape \(3, 6, 8\)"),
        ([], r"float64 of shape \(0,\)"),
        ("a text", r"<U6 of shape \(\)"),
    ],
)
def test_other_images_are_refused_and_named(image, seen):
    with pytest.raises(UserError, match=f"the toy renders {seen}.*--max_videos=0"):
        as_frame(image, "the toy")


@pytest.mark.parametrize("arguments", [{}, {"render_mode": None}, {"near": 0.5}])
def test_an_environment_need_not_take_a_render_mode(arguments):
    config = GymEnvConfig(task="toys/Blind-v0", package="toy_worlds", gym_kwargs=arguments)
    environment = GymEnvironment(config, {STATE: (4,)})
    environment.reset(1)
    assert environment.step(np.zeros(3, np.float32)).ended is False
    with pytest.raises(UserError, match=r"toys/Blind-v0 renders no images.*--max_videos=0"):
        environment.render()


def test_a_render_mode_that_is_asked_for_must_be_taken():
    config = GymEnvConfig(
        task="toys/Blind-v0", package="toy_worlds", gym_kwargs={"render_mode": "rgb_array"}
    )
    with pytest.raises(UserError, match=r"'render_mode'.*Check --env\.gym_kwargs"):
        GymEnvironment(config, {STATE: (4,)})


def test_films_need_a_render_mode():
    environment = point({STATE: (4,)})
    environment.reset(1)
    assert environment.render().shape == (32, 48, 3)
    blind = point({STATE: (4,)}, gym_kwargs={"render_mode": None})
    blind.reset(1)
    with pytest.raises(UserError, match="--max_videos=0"):
        blind.render()
