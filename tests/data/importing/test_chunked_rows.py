"""Rows arrive once each, and chunks are read once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyhands.data.importing import chunked_rows as module
from manyhands.data.importing.chunked_rows import chunked_rows, joined_frames


class Chunked:
    """An array that notes which rows are read."""

    def __init__(self, num_rows, chunk):
        self._values = np.arange(num_rows * 2).reshape(num_rows, 2)
        self.shape, self.dtype = self._values.shape, self._values.dtype
        self.chunks = None if chunk is None else (chunk, 2)
        self.reads = []

    def __getitem__(self, rows):
        self.reads.append((rows.start, rows.stop))
        return self._values[rows]


@given(st.integers(1, 40), st.none() | st.integers(1, 9), st.integers(1, 5), st.data())
def test_all_rows_arrive_in_order_and_no_chunk_twice(num_rows, chunk, num_chunks, data):
    start = data.draw(st.integers(0, num_rows))
    stop = data.draw(st.integers(start, num_rows))
    array = Chunked(num_rows, chunk)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_BLOCK_BYTES", 16 * num_chunks)
        rows = [row.tolist() for row in chunked_rows(array, start, stop)]
    assert rows == [[2 * row, 2 * row + 1] for row in range(start, stop)]
    touched = [row // (chunk or 1) for first, end in array.reads for row in {first, end - 1}]
    pieces = [{row // (chunk or 1) for row in range(*read)} for read in array.reads]
    assert len(set.union(set(), *pieces)) == sum(map(len, pieces)), touched


def test_columns_of_different_lengths_are_an_error():
    assert [*joined_frames({"a": iter([1]), "b": iter([2])})] == [{"a": 1, "b": 2}]
    with pytest.raises(ValueError, match="shorter"):
        [*joined_frames({"a": iter([1, 2]), "b": iter([2])})]
