"""The order samples are drawn in."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manyhands.data.order import SampleOrder
from manyhands.errors import DatasetError

TWO_EPISODES = np.array([[0, 12], [12, 20]])
LEROBOT_EPOCHS = [
    [12, 15, 3, 19, 9, 8, 17, 18, 6, 4, 0, 13, 16, 7, 14, 2, 5, 11, 10, 1],
    [14, 2, 4, 19, 16, 13, 5, 3, 18, 15, 10, 9, 12, 0, 6, 1, 17, 11, 8, 7],
]


def bounds_of(lengths: list[int]) -> np.ndarray:
    ends = np.cumsum(lengths)
    return np.stack([ends - lengths, ends], axis=1)


def test_epochs_are_those_of_lerobots_sampler():
    order = SampleOrder(TWO_EPISODES, seed=1000)
    assert order.indices(0, 20).tolist() == LEROBOT_EPOCHS[0]
    assert order.indices(20, 40).tolist() == LEROBOT_EPOCHS[1]


def test_a_batch_straddles_the_border_between_epochs():
    order = SampleOrder(TWO_EPISODES, seed=1000)
    assert order.indices(18, 23).tolist() == LEROBOT_EPOCHS[0][-2:] + LEROBOT_EPOCHS[1][:3]


def test_a_range_may_span_many_epochs():
    order = SampleOrder(bounds_of([3]), seed=0)
    drawn = order.indices(2, 10)
    assert sorted(drawn[1:4]) == sorted(drawn[4:7]) == [0, 1, 2]


def test_dropped_frames_and_short_episodes_are_never_drawn():
    order = SampleOrder(bounds_of([5, 2, 4]), seed=0, drop_n_last_frames=2)
    assert order.num_samples == 5
    assert sorted(order.indices(0, 5)) == [0, 1, 2, 7, 8]


def test_bad_rows_are_never_drawn_and_all_others_once_per_epoch():
    bad = np.array([1, 8])
    order = SampleOrder(bounds_of([5, 2, 4]), seed=0, drop_n_last_frames=2, bad_rows=bad)
    assert order.num_samples == 3
    assert sorted(order.indices(0, 3)) == sorted(order.indices(3, 6)) == [0, 2, 7]
    assert order.rows().tolist() == [0, 2, 7]
    with pytest.raises(DatasetError, match="no samples left"):
        SampleOrder(bounds_of([2]), seed=0, bad_rows=np.array([0, 1]))


def test_nothing_left_to_draw_is_an_error():
    with pytest.raises(DatasetError, match=r"last 7 frames .* the longest has 6"):
        SampleOrder(bounds_of([5, 6]), seed=0, drop_n_last_frames=7)


def test_an_empty_range_has_no_samples():
    assert SampleOrder(TWO_EPISODES, seed=0).indices(20, 20).tolist() == []


@settings(max_examples=50)
@given(
    lengths=st.lists(st.integers(1, 12), min_size=1, max_size=6),
    seed=st.integers(0, 2**31),
    num_ranks=st.integers(1, 4),
    per_rank=st.integers(1, 7),
)
def test_every_sample_is_drawn_once_per_epoch_by_all_ranks_together(
    lengths, seed, num_ranks, per_rank
):
    bounds, total = bounds_of(lengths), sum(lengths)
    per_step = num_ranks * per_rank
    num_steps = -(-2 * total // per_step)
    orders = [SampleOrder(bounds, seed) for _ in range(num_ranks)]
    drawn = [
        row
        for step in range(num_steps)
        for rank, order in enumerate(orders)
        for row in order.indices(
            step * per_step + rank * per_rank, step * per_step + (rank + 1) * per_rank
        )
    ]
    assert sorted(drawn[:total]) == sorted(drawn[total : 2 * total]) == list(range(total))


@settings(max_examples=50)
@given(
    lengths=st.lists(st.integers(1, 12), min_size=1, max_size=6),
    start=st.integers(0, 100),
    count=st.integers(0, 40),
)
def test_rows_depend_on_the_position_alone(lengths, start, count):
    order = SampleOrder(bounds_of(lengths), seed=7)
    whole = SampleOrder(bounds_of(lengths), seed=7).indices(0, start + count)
    assert order.indices(start, start + count).tolist() == whole[start:].tolist()
