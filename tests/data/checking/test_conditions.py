"""Findings of files by their condition."""

from manyhands.data.checking.check import files_to_check
from manyhands.data.checking.conditions import condition_findings


def test_a_file_is_found_once_with_its_episodes_and_camera(tiny_root, source_of):
    for path in (*tiny_root.glob("videos/**/*.mp4"), *tiny_root.glob("data/**/*.parquet")):
        path.write_bytes(b"")
    source = source_of(tiny_root)
    files = files_to_check(source, tuple(source.meta.info.features), is_full=False)
    found = [finding for file in files for finding in condition_findings(file)]
    places = [(each.file.split("/")[0], each.key, each.episode) for each in found]
    top = "observation.images.top"
    assert places == [("data", None, 0), ("data", None, 1), ("videos", top, 0), ("videos", top, 1)]
    assert all(each.message.endswith("is empty (0 bytes)") for each in found)
