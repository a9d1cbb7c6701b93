"""Numbers that count."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyhands.lerobot_format.dataset.tables import (
    counted_order,
    real_numbers,
    whole_number,
    whole_numbers,
)


@pytest.mark.parametrize("value", [True, None, "3", 3.0, -1, float("nan"), [3], 2**53, 10**400])
def test_what_counts_nothing_is_refused_by_name(value):
    with pytest.raises(ValueError, match="length must be an integer of at least 0"):
        whole_number(value, "length")


def test_whole_numbers_are_taken_from_a_least_one_on():
    assert whole_number(0, "length") == 0
    with pytest.raises(ValueError, match="of at least 1, not 0"):
        whole_number(0, "chunks_size", least=1)


@pytest.mark.parametrize(
    "column",
    [
        pa.array([0, None]),
        pa.array(["0", "1"]),
        pa.array([True, False]),
        pa.array([[0], [1]]),
        pa.array([0, -1]),
        pa.array([0.0, float("nan")]),
        pa.array([0.0, float("inf")]),
        pa.array([2**63, 1], pa.uint64()),
    ],
)
def test_columns_with_anything_else_are_refused_by_name(column):
    with pytest.raises(ValueError, match=r"column n (contains|must have)"):
        real_numbers(pa.table({"n": column}), "n")


def test_columns_may_be_of_any_width():
    for kind in (pa.int8(), pa.uint64(), pa.float32(), pa.float64()):
        values = whole_numbers(pa.table({"n": pa.array([2, 0], kind)}), "n")
        assert (values.dtype, values.tolist()) == (np.int64, [2, 0])
    with pytest.raises(ValueError, match=r"column n contains 0\.5, not an integer"):
        whole_numbers(pa.table({"n": [1, 0.5]}), "n")


@given(st.permutations(range(9)))
def test_counted_numbers_are_put_in_order(numbers):
    assert [numbers[place] for place in counted_order(numbers, "tasks")] == list(range(9))


@pytest.mark.parametrize(
    ("numbers", "fault"),
    [
        ([0, 1, 3], "tasks must be numbered 0 to 2, but 2 is missing"),
        ([1], "tasks must be numbered 0 to 0, but 0 is missing"),
        ([2, 1, 0, 1], "1 appears twice"),
    ],
)
def test_gaps_and_repetitions_are_named(numbers, fault):
    with pytest.raises(ValueError, match=fault):
        counted_order(numbers, "tasks")
