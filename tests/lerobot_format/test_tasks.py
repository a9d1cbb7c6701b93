"""meta/tasks.parquet."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from manyhands.errors import DatasetError
from manyhands.lerobot_format import names
from manyhands.lerobot_format.tasks import read_tasks, write_tasks


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
    ("columns", "message"),
    [
        ({"task": ["a", "b"], "task_index": [0, 2]}, "numbered from 0 without gaps"),
        ({"task": ["a", None], "task_index": [0, 1]}, "1 tasks have no text"),
        ({"task_index": [0, 1]}, "has no column task"),
        ({"task": ["a"]}, "has no column task_index"),
    ],
)
def test_tables_that_name_no_tasks_are_refused(tmp_path, columns, message):
    save(tmp_path, columns)
    with pytest.raises(DatasetError, match=rf"tasks\.parquet.*{message}"):
        read_tasks(tmp_path)
