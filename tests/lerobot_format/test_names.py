"""The names hold for datasets that LeRobot wrote."""

import json

from manyhands.lerobot_format import names


def test_every_file_lerobot_wrote_has_a_name_here(shared):
    root = shared / "fixtures" / "datasets" / "two_cameras_video"
    numbers = {"chunk_index": 0, "file_index": 0}
    cameras = ["observation.images.top", "observation.images.wrist"]
    expected = {
        names.INFO_FILE,
        names.STATS_FILE,
        names.TASKS_FILE,
        names.EPISODES_PATH.format(**numbers),
        names.DATA_PATH.format(**numbers),
        *(names.VIDEO_PATH.format(video_key=camera, **numbers) for camera in cameras),
    }
    files = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
    assert files == expected


def test_reserved_features_and_templates_are_lerobots(shared):
    for root in (shared / "fixtures" / "datasets").iterdir():
        info = json.loads((root / names.INFO_FILE).read_text())
        declared = {key: feature["dtype"] for key, feature in info["features"].items()}
        assert list(declared.items())[-5:] == list(names.RESERVED_FEATURES.items())
        assert info["codebase_version"] == names.CODEBASE_VERSION
        assert info["data_path"] == names.DATA_PATH
        assert info["video_path"] in (names.VIDEO_PATH, None)
