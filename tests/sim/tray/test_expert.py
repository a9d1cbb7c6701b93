"""The scripted expert: it always succeeds, in its own way each time."""

import numpy as np

from manyhands.sim.tray import task
from manyhands.sim.tray.expert import Expert, record_episodes
from manyhands.sim.tray.task import TrayTask


def lengths_of_success(seeds: list[int]) -> np.ndarray:
    """Steps the expert needs in each world; zero where it fails."""
    environment, expert = TrayTask(len(seeds)), Expert(seeds)
    observation = environment.reset(seeds)
    lengths = np.zeros(len(seeds), dtype=int)
    for step in range(1, task.MAX_STEPS + 1):
        observation, _, success = environment.step(expert.action(observation))
        lengths = np.where((lengths == 0) & success, step, lengths)
    return lengths


def test_the_expert_succeeds_with_time_to_spare():
    lengths = lengths_of_success(list(range(2000)))
    assert (lengths > 0).all()
    assert 30 < lengths.mean() < 50
    assert lengths.max() * 1.2 < task.MAX_STEPS


def test_operators_differ_and_are_repeatable():
    observation = TrayTask(1).reset([0])
    actions = [Expert([seed]).action(observation)[0] for seed in (0, 1, 0)]
    assert not np.array_equal(actions[0], actions[1])
    np.testing.assert_array_equal(actions[0], actions[2])


def test_the_expert_mends_a_missed_grasp():
    environment, expert = TrayTask(1), Expert([0])
    observation = environment.reset([0])
    for _ in range(6):
        observation, _, _ = environment.step(np.array([[0.0, -0.5, 0.0]]))
    for _ in range(task.MAX_STEPS):
        observation, _, success = environment.step(expert.action(observation))
        if success[0]:
            return
    raise AssertionError("the block never reached the tray")


def test_recorded_frames_have_exactly_the_features_of_the_task():
    episode = next(record_episodes([4], frame_size=24))
    spec = task.features(frame_size=24)
    for frame in episode:
        assert frame.pop("task") == task.INSTRUCTION
        assert set(frame) == set(spec)
        for name, value in frame.items():
            stored = "uint8" if spec[name]["dtype"] == "video" else spec[name]["dtype"]
            assert (value.shape, str(value.dtype)) == (spec[name]["shape"], stored)


def test_an_episode_ends_with_its_success_and_replays_to_it():
    seed = 11
    episode = next(record_episodes([seed], frame_size=16))
    flags = np.array([[frame["next.done"][0], frame["next.success"][0]] for frame in episode])
    assert flags[-1].all()
    assert not flags[:-1].any()

    environment = TrayTask(1, frame_size=16)
    observation = environment.reset([seed])
    for frame in episode:
        for name, values in observation.items():
            np.testing.assert_array_equal(frame[name], values[0])
        observation, _, success = environment.step(frame[task.ACTION][None])
    assert success[0]


def test_an_episode_does_not_depend_on_the_others_recorded_with_it():
    many = list(record_episodes(range(35), frame_size=8))
    assert len(many) == 35
    alone = next(record_episodes([33], frame_size=8))
    assert len(many[33]) == len(alone)
    for frame, same in zip(many[33], alone, strict=True):
        np.testing.assert_array_equal(frame[task.CAMERA], same[task.CAMERA])
        np.testing.assert_array_equal(frame[task.ACTION], same[task.ACTION])
