"""meta/info.json."""

import json
from pathlib import Path
from typing import Any

import pytest

from manyhands.errors import DatasetError
from manyhands.lerobot_format import names
from manyhands.lerobot_format.dataset_info import (
    DatasetInfo,
    Feature,
    parse_features,
    read_info,
    write_info,
)

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


@pytest.mark.parametrize("version", ["v3.0", "v3.1", "3.0", "v3.0.2"])
def test_every_third_version_is_read(tmp_path, version):
    assert read_info(write_document(tmp_path, MINIMAL | {"codebase_version": version})).fps == 30


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"codebase_version": "v2.1"}, "v2.1 is too old; convert"),
        ({"codebase_version": "v1.6"}, "v1.6 is too old"),
        ({"codebase_version": "v4.0"}, "unknown format version v4.0"),
        ({"codebase_version": "latest"}, "unknown format version latest"),
        ({"fps": 0}, "fps must be a positive number, not 0"),
        ({"fps": "30"}, "fps must be a positive number"),
        ({"chunks_size": -1}, "chunks_size must be a positive number"),
        ({"features": []}, "features must be an object"),
        ({"features": {"a": 3}}, "feature a must be an object"),
        ({"features": {"a/b": {"dtype": "int8", "shape": [1]}}}, "must not hold a slash"),
        ({"features": {"a": {"dtype": "int8"}}}, "shape must be a list"),
        ({"features": {"a": {"dtype": "int8", "shape": [0]}}}, "shape must be a list"),
        ({"features": {"a": {"shape": [1]}}}, "unknown dtype"),
        ({"features": {"a": {"dtype": "video", "shape": [1]}}}, "a camera needs three sizes"),
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


@pytest.mark.parametrize(
    "template",
    [
        "../{file_index}.parquet",
        "data/../../{file_index}.parquet",
        "/etc/passwd",
        "data\\..\\..\\x",
        "C:\\x",
        "\\\\host\\x",
        "",
        "data/\0",
    ],
)
def test_no_path_leads_out_of_the_folder(template):
    info = DatasetInfo("v3.0", 30, {}, data_path=template, video_path=template)
    with pytest.raises(DatasetError, match="leads out of the dataset folder"):
        info.data_file(0, 0)
    with pytest.raises(DatasetError, match="leads out of the dataset folder"):
        info.video_file("top", 0, 0)


def test_a_camera_name_does_not_lead_out_of_the_folder_either():
    with pytest.raises(DatasetError, match="leads out"):
        DatasetInfo("v3.0", 30, {}, video_path="{video_key}/x").video_file("..", 0, 0)


@pytest.mark.parametrize("template", ["{episode_index}", "{", "{0}", "{chunk_index.x}", None])
def test_a_template_that_cannot_be_filled_in_is_refused(template):
    with pytest.raises(DatasetError, match="cannot be filled in"):
        DatasetInfo("v3.0", 30, {}, data_path=template).data_file(0, 0)


def test_a_video_without_a_path_is_refused():
    with pytest.raises(DatasetError, match="video_path is null"):
        DatasetInfo("v3.0", 30, {}, video_path=None).video_file("top", 0, 0)


@pytest.mark.parametrize(
    ("labels", "shape"),
    [
        (["height", "width", "channels"], (3, 4, 6)),
        (("height", "width", "channel"), (3, 4, 6)),
        (["channels", "height", "width"], (4, 6, 3)),
        ({"axes": ["height", "width", "channels"]}, (4, 6, 3)),
        (None, (4, 6, 3)),
    ],
)
def test_channels_come_first_when_the_third_axis_is_named_so(labels, shape):
    assert Feature("video", (4, 6, 3), labels).channel_first_shape == shape
    assert Feature("float32", (4, 6, 3), labels).channel_first_shape == (4, 6, 3)


@pytest.mark.parametrize(
    "entry",
    [
        {"info": {"is_depth_map": True}},
        {"info": {"video.is_depth_map": True}},
        {"video_info": {"video.is_depth_map": True}},
    ],
)
def test_depth_is_recognized_wherever_it_is_flagged(entry):
    features = parse_features({"a": {"dtype": "video", "shape": [4, 6, 1], **entry}})
    assert features["a"].is_depth
