"""Columns brought into the layout of the recorder."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyhands.data.episodes import Source, select_episodes
from manyhands.data.writing.copy_rows import EpisodeRows, laid_out
from manyhands.errors import DatasetError
from manyhands.lerobot_format.dataset.features import Feature
from manyhands.lerobot_format.dataset.meta import read_dataset_meta

STATE = Feature("float32", (2,))
GRID = Feature("int16", (2, 3))
VECTORS = [[0.1, 2], [3, 4.5], [5, 6]]
GRIDS = [[[1, 2, 3], [4, 5, 6]], [[7, 8, 9], [10, 11, 12]]]
FLOATS = pa.list_(pa.float32())


@pytest.mark.parametrize(
    "kind",
    [pa.list_(pa.float32()), pa.list_(pa.float64(), 2), pa.large_list(pa.float64())],
    ids=str,
)
def test_vectors_get_one_layout_however_they_are_stored(kind):
    column = laid_out(pa.array(VECTORS, kind), STATE)
    assert column.type == pa.list_(pa.float32(), 2)
    assert column.to_pylist() == np.array(VECTORS, np.float32).tolist()


@pytest.mark.parametrize("kind", [pa.float64(), pa.list_(pa.float32()), pa.list_(pa.float32(), 1)])
def test_a_single_value_needs_no_list(kind):
    values = [[0.5], [1.5]] if pa.types.is_nested(kind) else [0.5, 1.5]
    column = laid_out(pa.array(values, kind), Feature("float32", (1,)))
    assert column.equals(pa.array([0.5, 1.5], pa.float32()))


def test_arrays_of_several_dimensions_stay_nested_lists():
    column = laid_out(pa.array(GRIDS, pa.list_(pa.list_(pa.int64(), 3))), GRID)
    assert column.type == pa.list_(pa.list_(pa.int16()))
    assert column.to_pylist() == GRIDS


@given(
    shape=st.lists(st.integers(1, 3), min_size=1, max_size=4).map(tuple),
    bounds=st.tuples(st.integers(0, 3), st.integers(1, 3)),
)
def test_a_part_of_a_column_is_laid_out_as_that_part(shape, bounds):
    feature, (start, length) = Feature("int64", shape), bounds
    numbers = np.arange(8 * np.prod(shape)).reshape(8, *shape)
    whole = pa.array(numbers.tolist() if shape != (1,) else numbers.reshape(-1).tolist())
    column = laid_out(whole.slice(start, length), feature)
    part = numbers[start : start + length]
    assert column.to_pylist() == (part.tolist() if shape != (1,) else part.reshape(-1).tolist())


@pytest.mark.parametrize(
    ("column", "feature", "message"),
    [
        (pa.array([[1, 2], [3]], FLOATS), STATE, "lists do not match"),
        (pa.array([[1, 2, 3], [4]], FLOATS), STATE, "lists do not match"),
        (pa.array([[1, 2], None], FLOATS), STATE, "does not match"),
        (pa.array([[1, None]], FLOATS), STATE, "null values"),
        (pa.array([1.0]), STATE, r"stored as double, which does not match \[2\]"),
        (pa.array([[[1, 2]]]), STATE, "lists do not match"),
        (pa.array([[1, 2]]), GRID, "does not match"),
        (pa.array([40_000]), Feature("int16", (1,)), "not in range"),
        (pa.array(["a"]), Feature("float32", (1,)), "Failed to parse"),
        (pa.array([1]), Feature("image", (4, 6, 3)), "cannot hold images"),
        (
            pa.array([{"bytes": None, "path": "a.png"}]),
            Feature("image", (4, 6, 3)),
            "cannot hold images",
        ),
    ],
)
def test_what_does_not_fit_its_feature_is_refused(column, feature, message):
    with pytest.raises((ValueError, pa.ArrowException), match=message):
        laid_out(column, feature)


def test_texts_may_be_missing():
    column = laid_out(pa.array(["a", None], pa.large_string()), Feature("string", (1,)))
    assert column.equals(pa.array(["a", None]))


def test_pictures_keep_their_files_and_names():
    feature = Feature("image", (4, 6, 3))
    stored = pa.array([{"path": "x.jpg", "bytes": b"one"}, {"path": None, "bytes": b"two"}])
    column = laid_out(stored, feature)
    assert [field.name for field in column.type] == ["bytes", "path"]
    assert column.to_pylist() == stored.to_pylist()
    bare = laid_out(pa.array([b"one", b"two"], pa.large_binary()), feature)
    assert bare.to_pylist() == [
        {"bytes": b"one", "path": "frame-000000.png"},
        {"bytes": b"two", "path": "frame-000001.png"},
    ]


def test_annotations_are_left_as_they_are():
    column = pa.array([[{"role": "user", "content": "go"}], []])
    assert laid_out(column, Feature("language", (1,))) is column


def rows_of(root) -> EpisodeRows:
    meta = read_dataset_meta(root)
    source = Source(root, meta, select_episodes(meta.episodes, None))
    return EpisodeRows(source, meta.info.features)


@pytest.mark.parametrize("rows_per_group", [1, 2, 100])
def test_episodes_are_found_whatever_the_row_groups(record, tmp_path, rows_per_group):
    root = tmp_path / "dataset"
    record(root, (5, 3, 6))
    file = root / "data/chunk-000/file-000.parquet"
    pq.write_table(pq.read_table(file), file, row_group_size=rows_per_group)
    rows = rows_of(root)
    for episode, bounds in ((1, (5, 8)), (2, (8, 14)), (0, (0, 5)), (1, (5, 8))):
        columns = rows.read(episode)
        assert columns["index"].to_pylist() == list(range(*bounds))
        assert columns["note"].to_pylist() == [f"note {number}" for number in range(*bounds)]


def test_columns_that_no_feature_declares_are_noted(record, tmp_path):
    root = tmp_path / "dataset"
    record(root, (2,))
    file = root / "data/chunk-000/file-000.parquet"
    pq.write_table(pq.read_table(file).append_column("extra", pa.array([1, 2])), file)
    rows = rows_of(root)
    assert "extra" not in rows.read(0)
    assert rows.undeclared == {"extra"}


def test_rows_of_another_episode_are_not_taken(record, tmp_path):
    root = tmp_path / "dataset"
    record(root, (3, 2))
    file = root / "data/chunk-000/file-000.parquet"
    pq.write_table(pq.read_table(file).slice(1), file)
    with pytest.raises(DatasetError, match="index must count from 0 to 2 in episode 0"):
        rows_of(root).read(0)


def test_a_fault_names_file_column_and_episode(record, tmp_path):
    root = tmp_path / "dataset"
    record(root, (3,))
    file = root / "data/chunk-000/file-000.parquet"
    table = pq.read_table(file)
    place = table.column_names.index("action")
    short = pa.array([[1.0, 2.0], [1.0], [1.0, 2.0]])
    pq.write_table(table.set_column(place, "action", short), file)
    with pytest.raises(DatasetError, match=r"file-000\.parquet, action, episode 0: its lists"):
        rows_of(root).read(0)
