"""Cameras as their files have them."""

from pathlib import Path

from page_datasets import CAMERA, damage_video, write_dataset

from manyhands.lerobot_format.dataset.meta import read_dataset_meta
from manyhands.report.datasets.cameras import camera_table


def rows(root: Path) -> list[list[str]]:
    table = camera_table(root, read_dataset_meta(root))
    return [list(row.cells) for row in table.rows] if table else []


def test_resolution_codec_and_rate_are_those_of_the_file(tmp_path: Path) -> None:
    ((camera, size, kind, stored, rate),) = rows(write_dataset(tmp_path / "d", 1))
    assert (camera, size, kind, rate) == (CAMERA, "32 × 32", "color", "10")
    assert stored.startswith("av1, yuv")


def test_images_in_the_table_have_no_codec(tmp_path: Path) -> None:
    assert rows(write_dataset(tmp_path / "d", 1, "image"))[0][3] == "images in the table"


def test_a_damaged_video_is_reported(tmp_path: Path) -> None:
    root = damage_video(write_dataset(tmp_path / "d", 2), 0)
    assert rows(root)[0][3].startswith("unreadable: ")


def test_without_cameras_there_is_no_table(tmp_path: Path) -> None:
    assert rows(write_dataset(tmp_path / "d", 1, None)) == []
