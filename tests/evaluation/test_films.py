"""Videos show every step of an episode; failures are shown first."""

import av
import numpy as np
import pytest

from manyhands.data.images.image_files import decode_image
from manyhands.evaluation.films import film_strip, filmed_first, write_film_strips, write_video
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
        frames=tuple(frames),
    )


def shades(number, height=32, width=48):
    levels = np.linspace(0, 255, number).astype(np.uint8)
    return [np.full((height, width, 3), level, np.uint8) for level in levels]


def test_failures_are_filmed_first_and_crashes_not_at_all():
    results = [episode(0, True), episode(1), episode(2, error="died"), episode(3), episode(4, True)]
    assert [each.index for each in filmed_first(results, 10)] == [1, 3, 0, 4]
    assert [each.index for each in filmed_first(results, 3)] == [1, 3, 0]
    assert filmed_first(results, 0) == []


@pytest.mark.parametrize("size", [(32, 48), (33, 47)])
def test_a_video_has_a_frame_for_the_start_and_every_step(tmp_path, size):
    frames = shades(13, *size)
    path = write_video(tmp_path / "videos", episode(4, frames=frames), fps=10)
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


@pytest.mark.parametrize("number", [1, 5, 8, 90])
def test_a_strip_goes_from_the_first_frame_to_the_last(number):
    frames = shades(number)
    strip = film_strip(episode(0, frames=frames))
    assert strip.shape == (32, 8 * 48, 3)
    assert (strip[:, :48] == frames[0]).all() and (strip[:, -48:] == frames[-1]).all()


def test_strips_of_episodes_stand_below_each_other(tmp_path):
    strips = [film_strip(episode(index, frames=shades(9))) for index in range(3)]
    write_film_strips(tmp_path / "strips.png", strips)
    image = decode_image((tmp_path / "strips.png").read_bytes())
    assert (np.asarray(image) == np.concatenate(strips)).all()
