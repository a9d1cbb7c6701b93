"""Rows as Python names them."""

import numpy as np
import pytest

from manyhands.data.row_index import find_rows


@pytest.mark.parametrize(
    ("index", "rows"),
    [
        (0, [0]),
        (-1, [9]),
        (np.int64(3), [3]),
        (slice(7, 20), [7, 8, 9]),
        (slice(None, None, -5), [9, 4]),
        ([0, -1], [0, 9]),
        (np.array([2, 5], np.uint8), [2, 5]),
    ],
)
def test_rows_are_found(index, rows):
    assert find_rows(index, 10).tolist() == rows


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (10, "row 10: the dataset has rows 0 to 9"),
        (-11, "row -11: the dataset has rows 0 to 9"),
        ([0, 12], "row 12: "),
        (slice(5, 5), r"slice\(5, 5, None\) selects none of the 10 rows"),
        ([], "selects none"),
    ],
)
def test_rows_that_are_not_there_are_named(index, message):
    with pytest.raises(IndexError, match=message):
        find_rows(index, 10)


@pytest.mark.parametrize("index", [1.5, "a", None, True, [0.5], ["a"]])
def test_what_is_no_row_is_named(index):
    with pytest.raises(TypeError, match=r"dataset\[0\], dataset\[0:8\] .* not by"):
        find_rows(index, 10)
