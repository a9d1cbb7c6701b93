"""What a policy that looks back sees."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from manyhands.policies.acting import ObservationWindow


def observation(tick):
    return {"observation.state": torch.full((2, 3), float(tick)), "task": ["push"] * 2}


@given(
    offsets=st.lists(st.integers(-6, 0), min_size=1, max_size=4, unique=True).map(sorted),
    num_ticks=st.integers(1, 9),
)
def test_every_offset_shows_its_tick_and_the_first_one_before_the_beginning(offsets, num_ticks):
    window = ObservationWindow(offsets)
    for tick in range(num_ticks):
        window.push(observation(tick))
    seen = window.contents()["observation.state"]
    assert seen.shape == (2, len(offsets), 3)
    expected = [max(0, num_ticks - 1 + offset) for offset in offsets]
    assert seen[0, :, 0].tolist() == expected


def test_words_are_the_latest_ones():
    window = ObservationWindow([-1, 0])
    window.push(observation(0))
    assert window.contents()["task"] == ["push", "push"]


def test_without_offsets_there_is_no_time_axis():
    window = ObservationWindow(None)
    for tick in range(3):
        window.push(observation(tick))
    assert torch.equal(window.contents()["observation.state"], torch.full((2, 3), 2.0))


def test_a_new_episode_sees_nothing_of_the_last_one():
    window = ObservationWindow([-2, -1, 0])
    for tick in range(4):
        window.push(observation(tick))
    window.reset()
    window.push(observation(9))
    assert (window.contents()["observation.state"] == 9).all()
