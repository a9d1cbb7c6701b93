"""Speed, jerk and rest of an episode."""

import numpy as np
import pytest

from manyhands.data.dataset import open_dataset
from manyhands.data.quality.motion import DatasetMotion, idleness, measure, num_window_frames
from manyhands.data.quality.trajectories import Trajectories


def test_even_motion_has_no_jerk_and_a_spike_all_of_it_in_one_window():
    ramp = np.arange(40.0)[:, None] * [1.0, 2.0]
    assert measure(ramp, 5).jerk == pytest.approx(0) and measure(ramp, 5).travel.tolist() == [1, 2]
    ramp[20, 1] += 10
    motion = measure(ramp, 5)
    assert motion.jerk == pytest.approx(0)
    # A spike of height one has third differences of one, three, three, one.
    assert motion.peak_jerk[1] == pytest.approx(10 * 8 / 5)
    assert motion.peak_size == pytest.approx([0, 10])
    assert motion.peak_frame[1] <= 17 and motion.peak_frame[1] + 5 + 3 > 20


@pytest.mark.parametrize("length", [0, 1, 2, 7])
def test_an_episode_too_short_for_a_window_is_not_measured(length):
    motion = measure(np.zeros((length, 2)), 5)
    assert np.isnan(motion.jerk).all() and np.isnan(motion.speed).all()
    assert motion.is_switch.all()


def test_the_window_is_half_a_second_or_four_frames():
    assert [num_window_frames(fps) for fps in (2, 10, 50)] == [4, 5, 25]


def test_rest_is_found_despite_the_noise_of_encoders(write_numbers, tmp_path):
    chance = np.random.default_rng(0)
    walk = np.arange(60.0)[:, None] * [3.0, 5.0]
    paused = np.concatenate([walk, np.repeat(walk[-1:], 40, axis=0), walk + walk[-1]])
    paused += chance.uniform(-0.05, 0.05, paused.shape)
    root = write_numbers(tmp_path / "dataset", [walk, walk + 1, paused])
    motion = DatasetMotion(trajectories := Trajectories(open_dataset(root=root)))
    idle = idleness(motion.is_idle(trajectories.read(2)))
    assert idle.longest == pytest.approx((60, 100), abs=2)
    assert idle.share == pytest.approx(40 / 160, abs=0.02)
    assert idleness(motion.is_idle(trajectories.read(0))).share == 0


def test_speeds_are_relative_to_the_usual_and_zero_without_motion(write_numbers, tmp_path):
    walk = np.arange(30.0)[:, None] * [3.0, 0.0]
    moving = Trajectories(open_dataset(root=write_numbers(tmp_path / "a", [walk, 2 * walk])))
    assert DatasetMotion(moving).speeds(moving.read(1)).max() == pytest.approx(4 / 3)
    still = Trajectories(open_dataset(root=write_numbers(tmp_path / "b", [0 * walk])))
    assert not DatasetMotion(still).speeds(still.read(0)).any()
    assert not DatasetMotion(still).is_idle(still.read(0)).any()
