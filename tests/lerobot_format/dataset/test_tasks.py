"""meta/tasks.parquet."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from manyhands.errors import DatasetError
from manyhands.lerobot_format import names
from manyhands.lerobot_format.dataset.tasks import read_tasks, write_tasks


def save(root, columns) -> None:
    (root / "meta").mkdir(exist_ok=True)
    pq.write_table(pa.table(columns), root / names.TASKS_FILE)


def test_tasks_come_back_in_order(tmp_path):
    write_tasks(tmp_path, ["push", "pull", "schieben"])
    assert read_tasks(tmp_path) == ["push", "pull", "schieben"]


def test_the_texts_are_the_index_of_a_pandas_table_as_lerobots_are(shared, tmp_path):
    theirs = shared / "fixtures" / "datasets" / "two_cameras_video" / names.TASKS_FILE
    write_tasks(tmp_path, ["task A", "task B"])
    ours = pq.read_table(tmp_path / names.TASKS_FILE)
    other = pq.read_table(theirs)
    assert ours.to_pylist() == other.to_pylist()
    described, expected = (json.loads(table.schema.metadata[b"pandas"]) for table in (ours, other))
    for key in ("index_columns", "column_indexes", "columns"):
        assert described[key] == expected[key]


@pytest.mark.parametrize("column", ["task", "__index_level_0__"])
def test_plain_tables_in_any_order_are_read(tmp_path, column):
    save(tmp_path, {column: ["b", "a"], "task_index": [1, 0]})
    assert read_tasks(tmp_path) == ["a", "b"]


@pytest.mark.parametrize(
    "kind", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]
)
def test_texts_are_read_in_any_form(tmp_path, kind):
    texts = pa.array(["a", "b"]).cast(kind)
    save(tmp_path, {"extra": [0.5, 1.5], "task_index": pa.array([0, 1], pa.int32()), "task": texts})
    assert read_tasks(tmp_path) == ["a", "b"]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"task": ["a", "b"], "task_index": [0, 2]},
            "tasks must be numbered 0 to 1, but 1 is missing",
        ),
        ({"task": ["a", "b"], "task_index": [1, 1]}, "0 is missing"),
        ({"task": ["a", "b"], "task_index": [False, True]}, "must have a number in every row"),
        ({"task": ["a", "b"], "task_index": ["0", "1"]}, "must have a number in every row"),
        ({"task": ["a", "b"], "task_index": [[0], [1]]}, "must have a number in every row"),
        ({"task": ["a", "b"], "task_index": [0, None]}, "must have a number in every row"),
        ({"task": [1, 2], "task_index": [0, 1]}, "column task must contain strings, not int64"),
        ({"task": [["a"], ["b"]], "task_index": [0, 1]}, "column task must contain strings"),
        ({"task_index": [0, 1]}, "has no column task"),
        ({"task": ["a"]}, "has no column task_index"),
    ],
)
def test_tables_that_name_no_tasks_are_refused(tmp_path, columns, message):
    save(tmp_path, columns)
    with pytest.raises(DatasetError, match=rf"tasks\.parquet.*{message}"):
        read_tasks(tmp_path)


def test_a_task_without_a_text_has_an_empty_one(tmp_path):
    save(tmp_path, {"task": ["a", None], "task_index": [0, 1]})
    assert read_tasks(tmp_path) == ["a", ""]
