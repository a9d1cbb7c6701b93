"""Columns held in memory."""

import numpy as np
import pyarrow as pa

from manyhands.data.columns import NumberColumn, ObjectColumn, TextColumn


def test_numbers_are_stacked_along_the_axes_of_the_rows():
    column = NumberColumn(np.arange(12.0).reshape(6, 2))
    assert column.read(np.array([[1, 1], [5, 0]])).tolist() == [
        [[2, 3], [2, 3]],
        [[10, 11], [0, 1]],
    ]


def test_objects_come_as_they_are():
    column = ObjectColumn(pa.chunked_array([[[{"a": 1}], []], [None]]))
    assert column.read(np.array([2, 0, 1])) == [None, [{"a": 1}], []]


def test_texts_are_shared_between_rows():
    column = TextColumn(["push", "pull"], np.array([0, 1, 1]))
    assert column.read(np.array([2, 0])) == ["pull", "push"]
