"""Jerky episodes are told from quick ones."""

import numpy as np
import pytest

from manyhands.data.dataset import open_dataset
from manyhands.data.quality.jerk import DatasetJerk
from manyhands.data.quality.motion import DatasetMotion
from manyhands.data.quality.trajectories import Trajectories


def found(root):
    trajectories = Trajectories(open_dataset(root=root))
    jerk = DatasetJerk(DatasetMotion(trajectories), trajectories.joints)
    return dict(jerk.findings())


def healthy(demonstrate, number=20):
    chance = np.random.default_rng(1)
    return [demonstrate(chance, 60)["observation.state"] for _ in range(number)]


def test_trembling_names_the_joint_and_a_jolt_its_frames(demonstrate, write_numbers, tmp_path):
    episodes = healthy(demonstrate)
    episodes[4][:, 1] += np.random.default_rng(2).normal(0, 8, 60)
    episodes[9][30, 0] += 150
    findings = found(write_numbers(tmp_path / "dataset", episodes))
    assert set(findings) == {4, 9}
    assert "[y] trembles" in findings[4].message and findings[4].joint.endswith("[y]")
    first, end = findings[9].frames
    assert "[x] jolts" in findings[9].message and first <= 30 < end


def test_a_quick_smooth_episode_is_not_jerky(demonstrate, write_numbers, tmp_path):
    episodes = healthy(demonstrate)
    times = np.linspace(0, 4 * np.pi, 60)
    episodes[5] = 256 + 200 * np.stack([np.sin(times), np.cos(times)], 1)
    assert found(write_numbers(tmp_path / "dataset", episodes)) == {}


@pytest.fixture
def slow_episodes():
    """A joint that moves little in each of twenty episodes, and reaches 400 in all of them."""
    drift = np.linspace(0, 20, 60)
    return [
        np.stack([start + 5 * np.sin(drift / 4), start + drift], 1)
        for start in np.linspace(0, 400, 20)
    ]


@pytest.mark.parametrize(("share", "found_in"), [(0.03, []), (0.15, [9])])
def test_a_jolt_counts_by_its_size_in_the_range_of_the_joint(
    share, found_in, slow_episodes, write_numbers, tmp_path
):
    slow_episodes[9][30, 0] += share * 400
    assert [*found(write_numbers(tmp_path / "dataset", slow_episodes))] == found_in


@pytest.mark.parametrize(("share", "found_in"), [(0.0001, []), (0.005, [9])])
def test_trembling_counts_by_its_size_in_the_range_of_the_joint(
    share, found_in, slow_episodes, write_numbers, tmp_path
):
    slow_episodes[9][::2, 0] += share * 400
    for episode in slow_episodes:
        episode -= 200  # Single precision resolves finer steps near zero.
    assert [*found(write_numbers(tmp_path / "dataset", slow_episodes))] == found_in


def test_a_gripper_that_opens_and_closes_is_not_jerky(demonstrate, write_numbers, tmp_path):
    episodes = healthy(demonstrate)
    for number, episode in enumerate(episodes):
        episode[:, 1] = 100 * (np.arange(60) // (30 if number else 3) % 2)
    assert found(write_numbers(tmp_path / "dataset", episodes)) == {}


def test_few_episodes_are_not_compared(demonstrate, write_numbers, tmp_path):
    episodes = healthy(demonstrate, 3)
    episodes[0][30] += 150
    assert found(write_numbers(tmp_path / "dataset", episodes)) == {}
