"""The order in which datasets take turns."""

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from manyhands.data.order import BLOCK, MixedOrder, SampleOrder, integer_weights


def order_of(lengths: list[int], weights: list[float], seed: int = 0) -> MixedOrder:
    orders = [
        SampleOrder(np.array([[0, length]]), seed + number) for number, length in enumerate(lengths)
    ]
    return MixedOrder(orders, weights, np.cumsum([0, *lengths]), seed)


@settings(max_examples=20)
@given(
    lengths=st.lists(st.integers(1, 50), min_size=1, max_size=4),
    cuts=st.lists(st.integers(0, 3 * BLOCK), min_size=2, max_size=6),
    seed=st.integers(0, 1000),
)
def test_positions_alone_decide_which_rows_are_drawn(lengths, cuts, seed):
    weights = [1.0 + number for number in range(len(lengths))]
    first, *_, last = cuts = sorted(cuts)
    whole = order_of(lengths, weights, seed).indices(first, last)
    pieces = [order_of(lengths, weights, seed).indices(*pair) for pair in pairwise(cuts)]
    assert np.array_equal(np.concatenate(pieces), whole)


def test_every_block_gives_each_dataset_its_share():
    order = order_of([10, 1000], [1, 3])
    for block in range(3):
        rows = order.indices(block * BLOCK, (block + 1) * BLOCK)
        assert (rows < 10).sum() == BLOCK // 4


def test_a_dataset_repeats_nothing_before_all_of_it_was_drawn():
    rows = order_of([100, 37], [1, 1]).indices(0, BLOCK)
    own = rows[rows >= 100]
    for start in range(0, len(own) - 37, 37):
        assert sorted(own[start : start + 37]) == list(range(100, 137))


def test_the_rows_of_all_datasets_are_drawn():
    assert order_of([100, 37], [1, 3]).rows().tolist() == list(range(137))


@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=20))
def test_shares_are_whole_sum_up_and_follow_the_weights(weights):
    counts = integer_weights(weights, BLOCK)
    assert counts.sum() == BLOCK and counts.min() >= 1
    exact = np.array(weights) / sum(weights) * BLOCK
    assert np.abs(counts - exact).max() <= len(weights) + 1
