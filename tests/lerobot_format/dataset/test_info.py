"""meta/info.json."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from manyhands.errors import DatasetError
from manyhands.lerobot_format import names
from manyhands.lerobot_format.dataset.info import DatasetInfo, read_info, write_info

MINIMAL: dict[str, Any] = {
    "codebase_version": "v3.0",
    "fps": 30,
    "features": {"action": {"dtype": "float32", "shape": [2], "names": None}},
}


def write_document(root: Path, document: dict[str, Any]) -> Path:
    (root / "meta").mkdir(exist_ok=True)
    (root / names.INFO_FILE).write_text(json.dumps(document))
    return root


def test_what_lerobot_wrote_is_written_again_to_the_last_character(shared, tmp_path):
    for name in ("two_cameras_video", "images_in_parquet"):
        root = shared / "fixtures" / "datasets" / name
        write_info(tmp_path, read_info(root))
        assert (tmp_path / names.INFO_FILE).read_text() == (root / names.INFO_FILE).read_text()


def test_missing_keys_take_lerobots_defaults_and_unknown_ones_are_ignored(tmp_path):
    info = read_info(write_document(tmp_path, MINIMAL | {"total_videos": 3, "robot_type": None}))
    assert (info.chunks_size, info.data_files_size_in_mb, info.robot_type) == (1000, 100, None)
    assert info.data_file(1, 23) == "data/chunk-001/file-023.parquet"
    assert info.video_file("top", 0, 1234) == "videos/top/chunk-000/file-1234.mp4"


@pytest.mark.parametrize(
    ("version", "major"),
    [("v3.0", 3), ("v3.1", 3), ("3.0", 3), ("v3.0.2", 3), ("v2.0", 2), ("v2.1", 2), ("2.1.0", 2)],
)
def test_versions_are_told_apart_and_kept(tmp_path, version, major):
    info = read_info(write_document(tmp_path, MINIMAL | {"codebase_version": version}))
    assert (info.major_version, info.codebase_version) == (major, version)


def test_version_2_counts_episodes_where_version_3_counts_files(tmp_path):
    document = MINIMAL | {"codebase_version": "v2.1", "fps": 29.97}
    info = read_info(write_document(tmp_path, document))
    assert info.fps == 29.97
    assert info.data_file(1, 1023) == "data/chunk-001/episode_001023.parquet"
    assert info.video_file("top", 0, 7) == "videos/chunk-000/top/episode_000007.mp4"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"codebase_version": "v1.6"}, "version 'v1.6'; supported: v2.0, v2.1 and v3.x"),
        ({"codebase_version": "v2.2"}, "unknown format version 'v2.2'"),
        ({"codebase_version": "v2.10"}, "unknown format version 'v2.10'"),
        ({"codebase_version": "v4.0"}, "unknown format version 'v4.0'"),
        ({"codebase_version": "latest"}, "unknown format version 'latest'"),
        ({"codebase_version": 3.0}, "unknown format version 3.0"),
        ({"codebase_version": None}, "unknown format version None"),
        ({"codebase_version": "3." + "9" * 5000 + "x"}, "unknown format version"),
        ({"fps": 0}, "fps must be a positive number, not 0"),
        ({"fps": "30"}, "fps must be a positive number"),
        ({"fps": True}, "fps must be a positive number"),
        ({"fps": None}, "fps must be a positive number"),
        ({"fps": float("nan")}, "fps must be a positive number, not nan"),
        ({"fps": float("inf")}, "fps must be a positive number, not inf"),
        ({"fps": 10**400}, "fps must be a positive number"),
        ({"chunks_size": 0}, "chunks_size must be an integer of at least 1, not 0"),
        ({"chunks_size": 2.5}, "chunks_size must be an integer"),
        ({"chunks_size": None}, "chunks_size must be an integer"),
        ({"data_files_size_in_mb": -1}, "data_files_size_in_mb must be a positive number"),
        ({"total_episodes": -1}, "total_episodes must be an integer"),
        ({"total_frames": "9"}, "total_frames must be an integer"),
        ({"total_tasks": False}, "total_tasks must be an integer"),
        ({"robot_type": ["a"]}, "robot_type must be a string or null"),
        ({"splits": ["train"]}, "splits must be an object"),
        ({"features": []}, "features must be an object"),
        ({"features": None}, "features must be an object"),
        ({"features": {"a": 3}}, "feature a must be an object"),
        ({"features": {"a/b": {"dtype": "int8", "shape": [1]}}}, "must not contain a slash"),
        ({"features": {"..": {"dtype": "int8", "shape": [1]}}}, "feature name '..'"),
        ({"features": {"index": {"dtype": "string", "shape": [1]}}}, "index must be a scalar"),
        ({"features": {"timestamp": {"dtype": "int8", "shape": [2]}}}, "must be a scalar"),
        ({"data_path": None}, "template None cannot be filled in"),
        ({"data_path": "data/{chunk_index}/{episode_index}"}, "cannot be filled in"),
        ({"data_path": "../{file_index}"}, "leads out of the dataset folder"),
        ({"video_path": 7}, "template 7 cannot be filled in"),
        ({"video_path": "{video_key.__class__}"}, "cannot be filled in"),
        ({"video_path": "{chunk_index:>1000000000}"}, "cannot be filled in"),
        ({"video_path": "C:/{video_key}"}, "leads out of the dataset folder"),
    ],
)
def test_a_faulty_description_is_refused(tmp_path, change, message):
    with pytest.raises(DatasetError, match=rf"info\.json: .*{message}"):
        read_info(write_document(tmp_path, MINIMAL | change))


@pytest.mark.parametrize("key", ["codebase_version", "fps", "features"])
def test_a_missing_key_is_named(tmp_path, key):
    document = {name: value for name, value in MINIMAL.items() if name != key}
    with pytest.raises(DatasetError, match=f"key '{key}' is missing"):
        read_info(write_document(tmp_path, document))


def test_no_path_leads_out_of_the_folder():
    info = DatasetInfo("v3.0", 30, {}, data_path="../x", video_path="/{video_key}")
    for locate in (info.data_file, partial(info.video_file, "top")):
        with pytest.raises(DatasetError, match=r"info\.json: .*leads out of the dataset folder"):
            locate(0, 0)


def test_a_camera_name_does_not_lead_out_of_the_folder_either():
    with pytest.raises(DatasetError, match="leads out"):
        DatasetInfo("v3.0", 30, {}, video_path="{video_key}/x").video_file("..", 0, 0)


def test_a_template_that_cannot_be_filled_in_is_refused():
    with pytest.raises(DatasetError, match="cannot be filled in"):
        DatasetInfo("v3.0", 30, {}, data_path="{episode_index}").data_file(0, 0)


def test_a_video_without_a_path_is_refused():
    with pytest.raises(DatasetError, match="video_path is null"):
        DatasetInfo("v3.0", 30, {}, video_path=None).video_file("top", 0, 0)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe\x00",
        b'{"fps": ' + b"9" * 5000 + b"}",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"robot_type": "\\ud800"}',
    ],
)
def test_what_is_no_description_at_all_is_refused(tmp_path, content):
    (tmp_path / "meta").mkdir()
    (tmp_path / names.INFO_FILE).write_bytes(content)
    with pytest.raises(DatasetError, match=r"meta/info\.json"):
        read_info(tmp_path)


def test_tools_are_kept_where_there_are_any(tmp_path):
    for tools in ([{"name": "say"}], None):
        info = read_info(write_document(tmp_path, MINIMAL | ({"tools": tools} if tools else {})))
        assert info.tools == tools
        write_info(tmp_path, info)
        document = json.loads((tmp_path / names.INFO_FILE).read_text())
        assert document.get("tools", "left out") == (tools or "left out")
    with pytest.raises(DatasetError, match="tools must be a list"):
        read_info(write_document(tmp_path, MINIMAL | {"tools": {"name": "say"}}))
