"""Columns over shared files."""

import pickle

import numpy as np
import pyarrow as pa
import pytest

from manyhands.data.columns import MappedArray, NumberColumn, ObjectColumn, TextColumn


@pytest.fixture
def mapped(tmp_path):
    def make(values: np.ndarray) -> MappedArray:
        (tmp_path / "values.bin").write_bytes(values.tobytes())
        return MappedArray(tmp_path / "values.bin", values.shape, values.dtype)

    return make


def test_numbers_are_stacked_along_the_axes_of_the_frames(mapped):
    column = NumberColumn(mapped(np.arange(12.0).reshape(6, 2)))
    out = np.empty((2, 2, *column.shape), column.dtype)
    column.read_into(np.array([[1, 1], [5, 0]]), out)
    assert out.tolist() == [[[2, 3], [2, 3]], [[10, 11], [0, 1]]]


def test_objects_come_as_they_are_in_any_process(tmp_path):
    table = pa.table({"key": pa.chunked_array([[[{"a": 1}], []], [None]])})
    with pa.ipc.new_file(str(tmp_path / "objects.arrow"), table.schema) as file:
        file.write_table(table)
    column = ObjectColumn(str(tmp_path / "objects.arrow"), "key")
    for one in (column, pickle.loads(pickle.dumps(column))):
        assert one.read(np.array([2, 0, 1])) == [None, [{"a": 1}], []]


def test_texts_are_shared_between_frames(mapped):
    column = TextColumn(["push", "pull"], mapped(np.array([0, 1, 1])))
    assert column.read(np.array([2, 0])) == ["pull", "push"]
