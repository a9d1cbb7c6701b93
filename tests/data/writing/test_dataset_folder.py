"""A folder that is there when all of it is written."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from manyhands.data.writing.dataset_folder import DatasetFolder
from manyhands.errors import DatasetError
from manyhands.lerobot_format.dataset.features import Feature

FEATURES = {"action": Feature("float32", (1,)), "index": Feature("int64", (1,))}


def add_episode(folder: DatasetFolder, length: int, **stats) -> None:
    rows = {
        "action": np.zeros(length, np.float32),
        "index": np.arange(length) + folder.num_frames,
    }
    tasks = [f"task {length}"]
    folder.task_number(tasks[0])
    folder.add(pa.table(rows), {}, tasks, {"action": stats} if stats else {})


def test_nothing_is_there_before_it_is_finished(tmp_path):
    folder = DatasetFolder(tmp_path / "dataset", 10, FEATURES, robot_type="arm")
    add_episode(folder, 3)
    add_episode(folder, 2)
    folder.put("meta/note.txt", b"as it is")
    assert not (tmp_path / "dataset").exists()
    folder.finish(pa.table({"episode_index": [7, 8], "is_good": [True, None]}))
    info = json.loads((tmp_path / "dataset/meta/info.json").read_text())
    totals = [info[f"total_{name}"] for name in ("episodes", "frames", "tasks")]
    assert totals == [2, 5, 2]
    assert (info["robot_type"], info["video_path"]) == ("arm", None)
    assert (tmp_path / "dataset/meta/note.txt").read_bytes() == b"as it is"
    episodes = pq.read_table(tmp_path / "dataset/meta/episodes/chunk-000/file-000.parquet")
    assert episodes["episode_index"].to_pylist() == [0, 1]
    assert episodes["is_good"].to_pylist() == [True, None]
    assert [path.name for path in tmp_path.iterdir()] == ["dataset"]


def test_what_is_discarded_leaves_nothing(tmp_path):
    folder = DatasetFolder(tmp_path / "dataset", 10, FEATURES)
    add_episode(folder, 3)
    folder.discard()
    folder.discard()
    assert not folder.is_open
    assert list(tmp_path.iterdir()) == []


def test_a_finished_folder_cannot_be_discarded(tmp_path):
    folder = DatasetFolder(tmp_path / "dataset", 10, FEATURES)
    add_episode(folder, 3)
    folder.finish()
    folder.discard()
    assert (tmp_path / "dataset/meta/info.json").is_file()


def test_statistics_that_some_episodes_lack_are_left_out(tmp_path):
    moments = dict.fromkeys(("min", "max", "mean", "std"), np.zeros(1)) | {"count": np.array([2])}
    folder = DatasetFolder(tmp_path / "dataset", 10, FEATURES)
    add_episode(folder, 2, **moments, q50=np.zeros(1))
    add_episode(folder, 2, **moments)
    folder.finish()
    stats = json.loads((tmp_path / "dataset/meta/stats.json").read_text())
    assert stats["action"].keys() == moments.keys()
    columns = pq.read_schema(tmp_path / "dataset/meta/episodes/chunk-000/file-000.parquet").names
    assert "stats/action/mean" in columns
    assert "stats/action/q50" not in columns


def test_a_leftover_of_a_run_that_was_killed_does_no_harm(tmp_path):
    leftover = tmp_path / ".dataset.partial" / "data"
    leftover.mkdir(parents=True)
    (leftover / "old").touch()
    folder = DatasetFolder(tmp_path / "dataset", 10, FEATURES)
    add_episode(folder, 1)
    folder.finish()
    assert not (tmp_path / "dataset/data/old").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["dataset"]


def test_a_dataset_without_episodes_is_refused(tmp_path):
    folder = DatasetFolder(tmp_path / "dataset", 10, FEATURES)
    with pytest.raises(DatasetError, match="at least one episode"):
        folder.finish()
