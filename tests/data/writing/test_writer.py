"""What is written can be read back."""

import json
import re
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from manyhands.data.dataset import open_dataset
from manyhands.data.writing.output_files import SizeLimits
from manyhands.data.writing.writer import DatasetWriter
from manyhands.errors import DatasetError

INFO_KEYS = [
    "codebase_version",
    "fps",
    "features",
    "total_episodes",
    "total_frames",
    "total_tasks",
    "chunks_size",
    "data_files_size_in_mb",
    "video_files_size_in_mb",
    "data_path",
    "video_path",
    "robot_type",
    "splits",
]
RESERVED = ["timestamp", "frame_index", "episode_index", "index", "task_index"]


def files_below(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    "limits", [SizeLimits(), SizeLimits(data_file_bytes=1), SizeLimits(2, 1, 1)], ids=str
)
def test_frames_come_back_as_they_were_written(record, tmp_path, limits):
    root, lengths = tmp_path / "dataset", (5, 3, 1, 6)
    frames = record(root, lengths, limits=limits, robot_type="arm")
    dataset = open_dataset(root=root)
    assert dataset.episode_bounds.tolist() == [[0, 5], [5, 8], [8, 9], [9, 15]]
    for row, frame in enumerate(frames):
        item = dataset[row]
        assert (item["task"], item["note"], item["index"]) == (frame["task"], frame["note"], row)
        for key in frame.keys() - {"task", "note"}:
            value, written = item[key].numpy(), frame[key]
            if key == "observation.images.top":
                pixels = written.transpose(2, 0, 1).astype(int)
                assert np.abs(value - pixels).mean() < 6
            elif key == "observation.image":
                assert np.array_equal(value, written.transpose(2, 0, 1))
            else:
                assert np.array_equal(value, written.astype(value.dtype).reshape(value.shape)), key


def test_the_layout_is_lerobots(plain_root, shared):
    files = [
        "data/chunk-000/file-000.parquet",
        "meta/episodes/chunk-000/file-000.parquet",
        "meta/info.json",
        "meta/stats.json",
        "meta/tasks.parquet",
        "videos/observation.images.top/chunk-000/file-000.mp4",
    ]
    assert files_below(plain_root) == files
    info = json.loads((plain_root / "meta" / "info.json").read_text())
    assert list(info) == INFO_KEYS
    assert list(info["features"])[-5:] == RESERVED
    assert info["splits"] == {"train": "0:3"}
    assert (info["total_frames"], info["total_tasks"]) == (14, 3)
    written_by_lerobot = shared / "fixtures" / "datasets" / "two_cameras_video"
    theirs = json.loads((written_by_lerobot / "meta" / "info.json").read_text())["features"]
    camera = "observation.images.top"
    assert info["features"][camera]["info"].keys() == theirs[camera]["info"].keys()
    assert info["features"]["timestamp"] == theirs["timestamp"]


def test_tables_have_the_types_of_lerobots(plain_root, shared):
    theirs = shared / "fixtures" / "datasets" / "two_cameras_video"
    for file, columns in (
        ("data/chunk-000/file-000.parquet", ["observation.state", "observation.grid", *RESERVED]),
        ("meta/episodes/chunk-000/file-000.parquet", None),
        ("meta/tasks.parquet", None),
    ):
        ours, other = pq.read_schema(plain_root / file), pq.read_schema(theirs / file)
        for name in columns or set(ours.names) & set(other.names):
            assert ours.field(name).equals(other.field(name), check_metadata=True), name
    assert not {
        name for name in other.names if not name.startswith("stats/") and "wrist" not in name
    } - set(ours.names)


def test_an_episode_is_a_row_group(plain_root):
    footer = pq.read_metadata(plain_root / "data" / "chunk-000" / "file-000.parquet")
    sizes = [footer.row_group(index).num_rows for index in range(footer.num_row_groups)]
    assert sizes == [5, 3, 6]


def test_small_limits_spread_episodes_over_files_and_folders(record, tmp_path):
    record(tmp_path / "dataset", (2, 2, 2), limits=SizeLimits(2, 1, 1))
    tail = ["chunk-000/file-000", "chunk-000/file-001", "chunk-001/file-000"]
    files = files_below(tmp_path / "dataset")
    assert [name for name in files if name.startswith("data/")] == [
        f"data/{name}.parquet" for name in tail
    ]
    assert [name for name in files if name.endswith(".mp4")] == [
        f"videos/observation.images.top/{name}.mp4" for name in tail
    ]


def test_statistics_of_the_dataset_cover_all_episodes(plain_root):
    stats = open_dataset(root=plain_root).stats
    assert stats["index"]["max"].tolist() == [13]
    assert stats["action"]["count"].tolist() == [14]
    assert stats["observation.images.top"]["mean"].shape == (3, 1, 1)
    assert 0.3 < stats["observation.images.top"]["mean"].mean() < 0.7
    assert "note" not in stats


def test_a_dataset_appears_only_when_it_is_whole(features, frame, tmp_path):
    root = tmp_path / "dataset"
    writer = DatasetWriter.create(root, 10, features)
    writer.add_frame(frame(0, "t"))
    writer.save_episode()
    assert not root.exists()
    writer.finalize()
    assert root.exists()
    assert files_below(tmp_path) == [f"dataset/{name}" for name in files_below(root)]
    with pytest.raises(DatasetError, match="is finished"):
        writer.add_frame(frame(1, "t"))


def test_an_error_while_recording_leaves_nothing(features, frame, tmp_path):
    with (
        pytest.raises(RuntimeError),
        DatasetWriter.create(tmp_path / "dataset", 10, features) as writer,
    ):
        writer.add_frame(frame(0, "t"))
        writer.save_episode()
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_frames_outside_an_episode_are_not_lost_silently(features, frame, tmp_path):
    writer = DatasetWriter.create(tmp_path / "dataset", 10, features)
    with pytest.raises(DatasetError, match="at least one episode"):
        writer.finalize()
    with pytest.raises(DatasetError, match="at least one frame"):
        writer.save_episode()
    writer.add_frame(frame(0, "t"))
    with pytest.raises(DatasetError, match="1 frames belong to no episode"):
        writer.finalize()
    writer.discard()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_exists_is_not_written_into(features, tmp_path):
    with pytest.raises(DatasetError, match="already exists"):
        DatasetWriter.create(tmp_path, 10, features)


CAMERA = {"dtype": "video", "shape": [32, 32, 3], "names": ["height", "width", "channels"]}


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ({"index": {"dtype": "int64", "shape": [1], "names": None}}, "index are reserved"),
        ({"a/b": {"dtype": "int64", "shape": [1], "names": None}}, "slash"),
        ({"a": {"dtype": "float33", "shape": [1], "names": None}}, "unknown dtype 'float33'"),
        ({"a": {"dtype": "int8", "shape": [1] * 6, "names": None}}, "1 to 5 dimensions"),
        ({"a": {"dtype": "language", "shape": [1], "names": None}}, "is not supported"),
        ({"a": CAMERA | {"shape": [31, 32, 3]}}, "31x32x3 cannot be a video"),
        ({"a": CAMERA | {"shape": [32, 32]}}, "three sizes"),
        ({"a": CAMERA | {"names": None}}, "needs axis names"),
        ({"a": CAMERA | {"info": {"is_depth_map": True}}}, "is not supported"),
    ],
)
def test_features_that_cannot_be_written_are_refused(tmp_path, features, message):
    with pytest.raises(DatasetError, match=re.escape(message)):
        DatasetWriter.create(tmp_path / "dataset", 10, features)


@pytest.mark.parametrize("fps", [0, 29.97, True])
def test_the_rate_must_be_a_whole_number(tmp_path, features, fps):
    with pytest.raises(DatasetError, match="fps must be a positive integer"):
        DatasetWriter.create(tmp_path / "dataset", fps, features)
