"""Files are found in any folder, by camera and number."""

import pytest

from manyhands.data.repairing.found_files import find_files
from manyhands.data.repairing.report import RepairReport


def touch(root, *names):
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()


@pytest.mark.parametrize(
    ("videos", "is_one_episode"),
    [
        (("videos/chunk-000/top/episode_000000.mp4", "videos/chunk-001/top/episode_000010.mp4"), 1),
        (("videos/top/chunk-000/file-000.mp4", "videos/top/chunk-001/file-000.mp4"), 0),
    ],
)
def test_both_layouts_are_read(tmp_path, videos, is_one_episode):
    touch(tmp_path, *reversed(videos), "data/chunk-000/file-000.parquet", "meta/tasks.parquet")
    report = RepairReport()
    found = find_files(tmp_path, report)
    assert [str(file.path.relative_to(tmp_path)) for file in found.videos["top"]] == [*videos]
    assert all(file.is_one_episode == is_one_episode for file in found.videos["top"])
    assert [file.chunk for file in found.videos["top"]] == [0, 1]
    assert len(found.data) == 1
    assert report.repairs == []


def test_a_moved_folder_is_found_and_noted(tmp_path):
    touch(tmp_path, "video/top/chunk-000/file-000.mp4", "frames/chunk-000/file-000.parquet")
    touch(tmp_path, "meta/episodes/chunk-000/file-000.parquet", ".cache/a/file-000.parquet")
    report = RepairReport()
    found = find_files(tmp_path, report)
    assert [file.path.name for file in found.data] == ["file-000.parquet"]
    assert list(found.videos) == ["top"]
    assert [each.repair for each in report.repairs] == ["read from frames/", "read from video/"]


def test_files_that_systems_add_are_no_data(tmp_path):
    touch(tmp_path, "data/chunk-000/._file-000.parquet", "data/chunk-000/file-000.parquet")
    assert len(find_files(tmp_path, RepairReport()).data) == 1
