"""Offsets to rows."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from manyhands.data.batches import window_rows


@given(
    start=st.integers(0, 50),
    length=st.integers(1, 20),
    data=st.data(),
    offsets=st.lists(st.integers(-30, 30), min_size=1, max_size=8),
)
def test_rows_stay_in_the_episode_and_the_mask_marks_what_was_moved(start, length, data, offsets):
    row = data.draw(st.integers(start, start + length - 1))
    window = window_rows(np.array([row]), np.array([[start, start + length]]), np.array(offsets))
    expected = [min(max(row + offset, start), start + length - 1) for offset in offsets]
    outside = [not start <= row + offset < start + length for offset in offsets]
    assert window.rows.tolist() == [expected]
    assert window.is_pad.tolist() == [outside]


def test_every_sample_keeps_to_its_own_episode():
    window = window_rows(np.array([1, 4]), np.array([[0, 2], [2, 5]]), np.array([-3, 0, 3]))
    assert window.rows.tolist() == [[0, 1, 1], [2, 4, 4]]
    assert window.is_pad.tolist() == [[True, False, True], [True, False, True]]
