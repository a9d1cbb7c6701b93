"""Samples of cameras."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from manyhands.data.episodes import Source, select_episodes
from manyhands.data.quality.camera_samples import (
    MAX_SAMPLES,
    camera_jobs,
    measured,
    sampled_frames,
)
from manyhands.lerobot_format.dataset.meta import read_dataset_meta


@given(st.integers(1, 5000), st.floats(1, 120))
def test_samples_are_few_ascending_and_include_both_ends(length, fps):
    frames = sampled_frames(length, fps)
    assert frames[0] == 0 and frames[-1] == length - 1
    assert len(frames) <= min(length, MAX_SAMPLES) and (np.diff(frames) > 0).all()


def test_a_repeated_image_does_not_change_and_slow_motion_adds_up():
    frames = np.arange(20)
    repeated = np.full((20, 3, 16, 16), 100, np.uint8)
    assert not measured("top", 0, frames, repeated).changes.any()
    drifting = repeated + frames[:, None, None, None].astype(np.uint8)
    assert (measured("top", 0, frames, drifting).changes > 4).sum() == 3


@given(st.sampled_from([1, 3, 4]), st.integers(1, 9), st.integers(1, 9), st.integers(1, 3))
def test_any_image_can_be_measured(channels, height, width, number):
    images = np.full((number, channels, height, width), 200, np.uint8)
    samples = measured("top", 0, np.arange(number), images)
    assert np.allclose(samples.brightness, 200, atol=0.1) and len(samples.changes) == number - 1


def test_every_camera_and_episode_is_sampled_once(plain_root):
    meta = read_dataset_meta(plain_root)
    jobs = [*camera_jobs(Source(plain_root, meta, select_episodes(meta.episodes, None)))]
    samples = [each for job in jobs for each in job.run()]
    cameras = {"observation.images.top", "observation.image"}
    assert {(each.key, each.episode) for each in samples} == {
        (key, episode) for key in cameras for episode in range(3)
    }
    assert len(samples) == 6 and all(job.cost_s > 0 for job in jobs)
    parts = [part for job in jobs for part in job.parts()]
    assert sum(part.num_frames for part in parts) == sum(job.num_frames for job in jobs)
    assert parts[0].parts() == [] and parts[0].lost("killed") == []
