"""Columns that others added to the table of episodes."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from manyhands.errors import DatasetError
from manyhands.lerobot_format.dataset.episode_stats import joined_labels, read_episode_labels
from manyhands.lerobot_format.dataset.info import DatasetInfo

OWN = {
    "tasks": [["t"], ["t"]],
    "length": [1, 1],
    "data/chunk_index": [0, 0],
    "videos/top/file_index": [0, 0],
    "stats/action/mean": [[0.5], [0.5]],
    "meta/episodes/file_index": [0, 0],
    "__index_level_0__": [0, 1],
}


def write_table(root, number, columns) -> None:
    path = root / f"meta/episodes/chunk-000/file-{number:03d}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)


def test_labels_of_the_episodes_asked_for_are_read_from_all_files(tmp_path):
    write_table(tmp_path, 0, OWN | {"episode_index": [0, 1], "grade": pa.array([7, 8], pa.int16())})
    write_table(tmp_path, 1, OWN | {"episode_index": [2, 3], "note": ["a", None]})
    labels = read_episode_labels(tmp_path, DatasetInfo("v3.0", 10, {}), [3, 0, 2])
    assert labels.to_pylist() == [
        {"episode_index": 3, "grade": None, "note": None},
        {"episode_index": 0, "grade": 7, "note": None},
        {"episode_index": 2, "grade": None, "note": "a"},
    ]
    assert labels.schema.field("grade").type == pa.int16()


def test_a_dataset_without_labels_has_none(tmp_path):
    write_table(tmp_path, 0, OWN | {"episode_index": pa.array([0, 1], pa.int32())})
    labels = read_episode_labels(tmp_path, DatasetInfo("v3.0", 10, {}), [1])
    assert labels.to_pylist() == [{"episode_index": 1}]


def test_lines_of_version_2_may_have_labels_of_any_form(tmp_path):
    lines = [
        {"episode_index": 1, "tasks": ["t"], "length": 3, "grade": 5, "mixed": {"a": 1}},
        {"episode_index": 0, "tasks": ["t"], "length": 3, "mixed": "ä"},
    ]
    (tmp_path / "meta").mkdir()
    text = "\n".join(json.dumps(line) for line in lines)
    (tmp_path / "meta/episodes.jsonl").write_text(text)
    labels = read_episode_labels(tmp_path, DatasetInfo("v2.1", 10, {}), [0, 1])
    assert labels.to_pylist() == [
        {"episode_index": 0, "grade": None, "mixed": '"ä"'},
        {"episode_index": 1, "grade": 5, "mixed": '{"a": 1}'},
    ]


def test_labels_that_do_not_fit_together_are_told(tmp_path):
    numbers, texts = pa.table({"grade": [1]}), pa.table({"grade": ["good"]})
    with pytest.raises(ValueError, match="labels of episodes have different types"):
        joined_labels([numbers, texts])
    write_table(tmp_path, 0, OWN | {"episode_index": [0, 1], "grade": [7, 8]})
    write_table(tmp_path, 1, OWN | {"episode_index": [2, 3], "grade": ["a", "b"]})
    with pytest.raises(DatasetError, match="meta/episodes: labels of episodes"):
        read_episode_labels(tmp_path, DatasetInfo("v3.0", 10, {}), [0])
