"""A film is made of frames that are not held; its stills go from the first one to the last."""

import tracemalloc

import numpy as np
import pytest
from filmed import film_of, shades

from manyhands.evaluation.film_recorder import NUM_STILLS, FilmRecorder


@pytest.mark.parametrize("number", [1, 5, 8, 90])
def test_a_strip_goes_from_the_first_frame_to_the_last_and_repeats_none(number):
    frames = shades(number)
    stills = film_of(frames).stills
    assert len(stills) == min(number, NUM_STILLS)
    assert (stills[0] == frames[0]).all() and (stills[-1] == frames[-1]).all()
    levels = stills[:, 0, 0, 0].tolist()
    assert levels == sorted(set(levels))


@pytest.mark.parametrize("number", [4, 30])
def test_a_strip_ends_with_the_last_frame_if_an_episode_takes_another_number_of_steps(number):
    recorder = FilmRecorder(10, 12)
    frames = shades(number)
    for frame in frames:
        recorder.add(frame)
    stills = recorder.finish().stills
    assert (stills[0] == frames[0]).all() and (stills[-1] == frames[-1]).all()


def test_a_recorder_holds_few_frames_however_long_the_episode_is():
    frame = np.zeros((240, 320, 3), np.uint8)
    recorder = FilmRecorder(10, 400)
    tracemalloc.start()
    for _ in range(400):
        recorder.add(frame.copy())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < (NUM_STILLS + 8) * frame.nbytes
