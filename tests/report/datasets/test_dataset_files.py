"""What a page reads of a dataset, and what it does without."""

from pathlib import Path

import pytest
from page_datasets import DARK, JERKY, damage_video, no_bar, read_files, write_dataset

from manyhands.report.datasets import dataset_files
from manyhands.report.datasets.dataset_files import read_dataset_files


def test_a_dataset_is_checked_quickly_and_judged(tmp_path: Path) -> None:
    files = read_files(write_dataset(tmp_path / "d"))
    assert files.check is not None and files.check.thoroughness == "quick"
    assert files.check.is_usable and files.bad_episodes == []
    assert files.excluded == [JERKY, DARK] and len(files.judged) == 10
    assert files.numbers is not None and files.numbers.num_episodes == 10 and files.fault == ""


def test_an_episode_without_images_is_excluded_and_judged_by_its_numbers(tmp_path: Path) -> None:
    files = read_files(damage_video(write_dataset(tmp_path / "d"), 1))
    assert files.bad_episodes == [1] and files.excluded == [1, JERKY, DARK]
    assert files.judged[1].cameras == () and files.judged[1].jerk is not None


def test_an_episode_without_a_table_is_not_judged(tmp_path: Path) -> None:
    root = write_dataset(tmp_path / "d", 3)
    sorted((root / "data").rglob("*.parquet"))[1].unlink()
    files = read_files(root)
    assert files.excluded == [1] and sorted(files.judged) == [0, 2]
    assert files.exclude_flag == "--dataset.exclude_episodes=[1]"


def test_a_dataset_without_readable_episodes_has_a_fault(tmp_path: Path) -> None:
    root = write_dataset(tmp_path / "d", 1)
    next((root / "data").rglob("*.parquet")).unlink()
    files = read_files(root)
    assert files.numbers is None and files.quality is None and files.judged == {}
    assert files.fault == "no episode can be read"
    assert files.excluded == [0] and files.exclude_flag == ""


def test_progress_is_shown_by_name_and_cameras_have_a_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = []
    monkeypatch.setattr(dataset_files, "QUALITY_S", -1.0)

    def bar(doing):
        shown.append(doing)
        return no_bar(doing)

    files = read_dataset_files(write_dataset(tmp_path / "d", 2), "d", bar)
    assert shown == ["checking frames", "sampling frames"]
    assert files.quality is not None and len(files.quality.episodes) == 2
