"""Videos show every step of an episode; failures are shown first."""

from dataclasses import replace

import av
import numpy as np
import pytest
from filmed import film_of, shades
from hypothesis import given
from hypothesis import strategies as st

from manyhands.data.images.image_files import decode_image
from manyhands.evaluation.captions import caption_coverage
from manyhands.evaluation.films import (
    film_strip,
    filmed_first,
    write_film_strips,
    write_video,
)
from manyhands.evaluation.rollout import EpisodeResult


def episode(index, success=False, error=None, frames=()):
    return EpisodeResult(
        index=index,
        seed=index,
        success=success,
        sum_reward=0.0,
        max_reward=0.0,
        length=max(0, len(frames) - 1),
        error=error,
        film=film_of(frames),
    )


def test_failures_are_filmed_first_and_crashes_not_at_all():
    results = [episode(0, True), episode(1), episode(2, error="died"), episode(3), episode(4, True)]
    assert [each.index for each in filmed_first(results, 10)] == [1, 3, 0, 4]
    assert [each.index for each in filmed_first(results, 3)] == [1, 3, 0]
    assert filmed_first(results, 0) == []


@pytest.mark.parametrize("size", [(32, 48), (33, 47)])
def test_a_video_has_a_frame_for_the_start_and_every_step(tmp_path, size):
    frames = shades(13, *size)
    path = write_video(tmp_path / "videos", episode(4, frames=frames))
    assert path == tmp_path / "videos" / "eval_episode_4.mp4"
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        shown = [frame.to_ndarray(format="rgb24") for frame in container.decode(stream)]
        assert stream.average_rate == 10
    assert len(shown) == 13
    assert shown[0].shape == (size[0] // 2 * 2, size[1] // 2 * 2, 3)
    assert all(
        abs(int(seen.mean()) - int(frame.mean())) < 8
        for seen, frame in zip(shown, frames, strict=True)
    )


def test_a_caption_names_the_episode_and_how_it_went():
    frames = shades(2)
    failed = replace(episode(7, frames=frames), seed=1007, max_reward=0.92345)
    succeeded = replace(failed, success=True)
    assert film_strip(failed).caption == "episode 7, seed 1007: failure, maximum reward 0.923"
    assert film_strip(succeeded).caption == "episode 7, seed 1007: success"


@given(index=st.integers(0), seed=st.integers(0), reward=st.floats(), success=st.booleans())
def test_every_caption_can_be_drawn(index, seed, reward, success):
    result = replace(episode(index, success, frames=shades(1)), seed=seed, max_reward=reward)
    assert caption_coverage(film_strip(result).caption, 1).max() > 0.9


@pytest.mark.parametrize("size", [(32, 48), (240, 320)])
def test_strips_of_episodes_are_rows_with_their_captions(tmp_path, size):
    strips = [film_strip(episode(index, frames=shades(9, *size))) for index in range(3)]
    write_film_strips(tmp_path / "strips.png", strips)
    image = np.asarray(decode_image((tmp_path / "strips.png").read_bytes()))
    height, width = size
    # The first frame of these episodes is black, which captions are not.
    is_black = (image == 0).all(axis=2)
    tops = [row for row in range(1, len(image)) if is_black[row].any() > is_black[row - 1].any()]
    assert len(tops) == 3
    end = 0
    for top in tops:
        (left,) = set(is_black[top : top + height].argmax(axis=1))
        assert is_black[top : top + height, left : left + width].all()
        assert (image[end:top] < 128).any(), "no caption"
        end = top + height
