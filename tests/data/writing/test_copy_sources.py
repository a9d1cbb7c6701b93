"""What is wanted of datasets is checked before anything is written."""

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from manyhands.data.writing.copy_sources import (
    EpisodeChoice,
    check_compatible,
    check_target,
    merged_robot,
    merged_tools,
    merged_video_info,
    open_source,
)
from manyhands.data.writing.writer import DatasetWriter
from manyhands.errors import DatasetError
from manyhands.lerobot_format import names

CAMERA = {"dtype": "image", "shape": [4, 6, 3], "names": ["height", "width", "channels"]}
VECTOR = {"dtype": "float32", "shape": [2], "names": ["x", "y"]}


def write_dataset(root: Path, features=None, fps=10, robot_type=None) -> Path:
    features = features or {"action": VECTOR}
    with DatasetWriter.create(root, fps, features, robot_type) as writer:
        for _ in range(2):
            frame = {
                key: np.zeros(each["shape"], "uint8" if each["dtype"] == "image" else each["dtype"])
                for key, each in features.items()
            }
            writer.add_frame({**frame, "task": "t"})
        writer.save_episode()
    return root


def change_info(root: Path, **values) -> None:
    info = json.loads((root / "meta/info.json").read_text())
    (root / "meta/info.json").write_text(json.dumps(info | values))


@pytest.mark.parametrize(
    ("episodes", "exclude", "chosen"),
    [
        (None, (), [0, 1, 2]),
        ([2, 0], (), [2, 0]),
        (None, [1], [0, 2]),
        ([0, 1], [1, 2], [0]),
    ],
)
def test_episodes_come_in_the_order_they_are_asked_for(plain_root, episodes, exclude, chosen):
    assert open_source(EpisodeChoice(plain_root, episodes, exclude)).episodes == chosen


@pytest.mark.parametrize(
    ("episodes", "exclude", "message"),
    [
        ([3, 0], (), "has no episode 3; it has episodes 0 to 2"),
        (None, [-1], "has no episode -1; it has episodes 0 to 2"),
        ([1, 1], (), "contain duplicates"),
        ([], (), "no episodes left"),
        (None, [0, 1, 2], "no episodes left"),
    ],
)
def test_a_choice_that_cannot_be_made_is_refused(plain_root, episodes, exclude, message):
    with pytest.raises(DatasetError, match=message):
        open_source(EpisodeChoice(plain_root, episodes, exclude))


def test_a_rate_must_be_whole(tmp_path):
    root = write_dataset(tmp_path / "a")
    change_info(root, fps=30 + 1e-7)
    assert open_source(EpisodeChoice(root)).fps == 30
    change_info(root, fps=29.97)
    with pytest.raises(DatasetError, match=r"fps is 29\.97, but version 3\.0 supports integers"):
        open_source(EpisodeChoice(root))


def test_an_episode_without_frames_is_named(tmp_path):
    root = write_dataset(tmp_path / "a")
    change_info(root, total_episodes=0)
    file = root / "meta/episodes/chunk-000/file-000.parquet"
    row = pq.read_table(file)
    changes = {"episode_index": 1, "length": 0, "dataset_from_index": 2, "dataset_to_index": 2}
    empty = row
    for name, value in changes.items():
        empty = empty.set_column(row.column_names.index(name), name, pa.array([value]))
    pq.write_table(pa.concat_tables([row, empty]), file)
    with pytest.raises(DatasetError, match=r"episode 1 has no frames.*--exclude_episodes=\[1\]"):
        open_source(EpisodeChoice(root))
    assert open_source(EpisodeChoice(root, exclude=[1])).episodes == [0]


@pytest.mark.parametrize(
    ("one", "other", "message"),
    [
        ({"fps": 10}, {"fps": 30}, "fps is 10 and 30"),
        ({"robot_type": "a"}, {"robot_type": "b"}, "robot_type is a and b.*--allow_mixed_robots"),
        ({"robot_type": "a"}, {}, "robot_type is a and None"),
        (
            {"features": {"action": VECTOR, "more": VECTOR}},
            {"features": {"action": VECTOR}},
            "only .*one has more",
        ),
        (
            {"features": {"action": VECTOR}},
            {"features": {"action": VECTOR | {"dtype": "float64"}}},
            "action has dtype float32 and float64",
        ),
        (
            {"features": {"action": VECTOR}},
            {"features": {"action": VECTOR | {"shape": [3]}}},
            r"action has shape \[2\] and \[3\]",
        ),
        (
            {"features": {"action": VECTOR}},
            {"features": {"action": VECTOR | {"names": ["y", "x"]}}},
            r"action has names \['x', 'y'\] and \['y', 'x'\]",
        ),
        (
            {"features": {"top": CAMERA}},
            {"features": {"top": CAMERA | {"shape": [6, 4, 3]}}},
            r"top has channels, height, width \[3, 4, 6\] and \[3, 6, 4\]",
        ),
    ],
)
def test_datasets_that_differ_are_not_merged(tmp_path, one, other, message):
    roots = [write_dataset(tmp_path / "one", **one), write_dataset(tmp_path / "other", **other)]
    sources = [open_source(EpisodeChoice(root)) for root in roots]
    with pytest.raises(
        DatasetError, match=f"{roots[0]} and {roots[1]} cannot be merged: {message}"
    ):
        check_compatible(sources, allow_mixed_robots=False)


def test_all_differences_are_told_at_once(tmp_path):
    roots = [write_dataset(tmp_path / "a", fps=10), write_dataset(tmp_path / "b", fps=20)]
    change_info(roots[1], robot_type="arm")
    with pytest.raises(DatasetError, match=r"fps is 10 and 20; robot_type is None and arm"):
        check_compatible([open_source(EpisodeChoice(root)) for root in roots], False)


def test_a_camera_may_name_its_axes_otherwise(tmp_path):
    other = {"dtype": "image", "shape": [3, 4, 6], "names": ["channels", "height", "width"]}
    roots = [
        write_dataset(tmp_path / "a", {"top": CAMERA}),
        write_dataset(tmp_path / "b", {"top": other}),
        write_dataset(tmp_path / "c", {"top": CAMERA | {"names": ["height", "width", "channel"]}}),
    ]
    check_compatible([open_source(EpisodeChoice(root)) for root in roots], False)


def test_distances_must_be_coded_alike(tmp_path):
    roots = [write_dataset(tmp_path / name, {"top": CAMERA}) for name in "ab"]
    for root, unit in zip(roots, ("mm", "m"), strict=True):
        features = json.loads((root / "meta/info.json").read_text())["features"]
        features["top"]["info"] = {"is_depth_map": True, "depth_unit": unit}
        change_info(root, features=features)
    with pytest.raises(DatasetError, match="top has depth unit mm and m"):
        check_compatible([open_source(EpisodeChoice(root)) for root in roots], False)


def test_distances_told_in_an_older_way_stay_distances(tmp_path):
    ways = [{"video.is_depth_map": True}, {"is_depth_map": True, "video.depth_min": 0.01}]
    roots = [write_dataset(tmp_path / name, {"top": CAMERA}) for name in "ab"]
    for root, facts in zip(roots, ways, strict=True):
        features = json.loads((root / "meta/info.json").read_text())["features"]
        features["top"] |= {"info": facts, "dtype": "video"}
        change_info(root, features=features, video_path=names.VIDEO_PATH)
        add_video_columns(root)
        video = root / names.VIDEO_PATH.format(video_key="top", chunk_index=0, file_index=0)
        video.parent.mkdir(parents=True)
        video.write_bytes(b"not read here")
    sources = [open_source(EpisodeChoice(root)) for root in roots]
    check_compatible(sources, False)
    facts = merged_video_info([source.features["top"].info for source in sources])
    assert facts == {
        "is_depth_map": True,
        "video.depth_min": 0.01,
        "video.depth_max": 10.0,
        "video.shift": 3.5,
        "video.use_log": True,
    }


def add_video_columns(root: Path) -> None:
    file = root / "meta/episodes/chunk-000/file-000.parquet"
    table = pq.read_table(file)
    for name in ("chunk_index", "file_index", "from_timestamp"):
        table = table.append_column(f"videos/top/{name}", pa.array([0]))
    pq.write_table(table, file)


def test_mixed_robots_are_merged_when_asked_and_then_named_none(tmp_path):
    roots = [write_dataset(tmp_path / name, robot_type=name) for name in "ab"]
    sources = [open_source(EpisodeChoice(root)) for root in roots]
    check_compatible(sources, allow_mixed_robots=True)
    assert merged_robot(sources) is None
    assert merged_robot(sources[:1]) == "a"


def test_tools_of_all_datasets_are_kept_once(tmp_path):
    roots = [write_dataset(tmp_path / name) for name in "abc"]
    change_info(roots[0], tools=[{"name": "say"}])
    change_info(roots[2], tools=[{"name": "say"}, {"name": "wave"}])
    sources = [open_source(EpisodeChoice(root)) for root in roots]
    assert merged_tools(sources) == [{"name": "say"}, {"name": "wave"}]
    assert merged_tools(sources[1:2]) is None


def test_subtasks_that_are_numbered_differently_are_not_merged(tmp_path):
    roots = [write_dataset(tmp_path / name) for name in "ab"]
    (roots[0] / "meta/subtasks.parquet").write_bytes(b"numbers and texts")
    with pytest.raises(DatasetError, match="subtask numbers differ"):
        check_compatible([open_source(EpisodeChoice(root)) for root in roots], False)


def test_facts_on_which_videos_disagree_become_null():
    one = {"video.codec": "av1", "video.g": 2, "has_audio": True, "audio.codec": "aac"}
    other = {"video.codec": "h264", "video.g": 2}
    assert merged_video_info([one, other]) == {
        "video.codec": None,
        "video.g": 2,
        "has_audio": False,
    }
    assert merged_video_info([other]) == other


def test_a_disk_without_room_is_told_with_numbers(plain_root, tmp_path, monkeypatch):
    source = open_source(EpisodeChoice(plain_root))
    size = sum(path.stat().st_size for path in plain_root.rglob("*.*") if path.is_file())
    usage = type(shutil.disk_usage(tmp_path))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10**9, 10**9, 1000))
    message = rf"needs about 1\.\d MiB, but {tmp_path} has 1000 B free"
    with pytest.raises(DatasetError, match=message):
        check_target([source], tmp_path / "deep" / "dataset")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10**9, 0, 2 * 1024**2 + size))
    check_target([source], tmp_path / "deep" / "dataset")


def test_a_target_must_be_free_and_outside_of_what_is_read(plain_root, tmp_path):
    source = open_source(EpisodeChoice(plain_root))
    with pytest.raises(DatasetError, match="already exists"):
        check_target([source], tmp_path)
    with pytest.raises(DatasetError, match="is inside"):
        check_target([source], plain_root / "data" / "copy")
