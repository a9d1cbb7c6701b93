"""Even parts of a whole."""

from hypothesis import given
from hypothesis import strategies as st

from manyhands.parallel.collectives import even_slice


@given(st.integers(0, 200), st.integers(1, 20))
def test_parts_hold_everything_once_in_order_and_differ_by_one_at_most(length, num_micro_batches):
    whole = list(range(length))
    parts = [
        whole[even_slice(length, number, num_micro_batches)] for number in range(num_micro_batches)
    ]
    assert sum(parts, []) == whole
    sizes = [len(part) for part in parts]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] - sizes[-1] <= 1


def test_the_first_parts_are_the_longer_ones():
    slices = [even_slice(7, number, 3) for number in range(3)]
    assert slices == [slice(0, 3), slice(3, 5), slice(5, 7)]
