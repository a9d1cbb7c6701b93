"""Folders whose metadata may be anything."""

import pytest

from manyhands.data.checking.check import CheckOptions
from manyhands.data.checking.result_cache import check_folder
from manyhands.errors import DatasetError

HERE = CheckOptions(num_workers=0)


def test_a_readable_folder_is_checked(tiny_root, tmp_path):
    result = check_folder(tiny_root, None, tmp_path / "home", HERE)
    assert result.is_usable
    assert check_folder(tiny_root, [0], tmp_path / "home", HERE).num_frames == 3


@pytest.mark.parametrize("file", ["meta/info.json", "meta/tasks.parquet", "meta/stats.json"])
def test_metadata_that_cannot_be_read_are_a_finding(tiny_root, tmp_path, file):
    (tiny_root / file).write_bytes(b"\0garbage")
    result = check_folder(tiny_root, None, tmp_path / "home", HERE)
    (found,) = result.findings
    assert (found.check, found.severity, found.episode) == ("metadata", "bad", None)
    assert found.text.startswith(file) or f"meta: {file}" in found.text
    assert result.state_of("metadata") == "bad"
    assert result.state_of("videos") == "skipped"


def test_totals_that_are_off_are_a_finding(tiny_root, tmp_path, change_json):
    change_json(tiny_root / "meta/info.json", lambda info: info.update(total_frames=99))
    (found,) = check_folder(tiny_root, None, tmp_path / "home", HERE).findings
    assert (found.check, found.severity) == ("metadata", "warning")


def test_an_empty_folder_holds_no_dataset(tmp_path):
    (found,) = check_folder(tmp_path, None, tmp_path / "home", HERE).findings
    assert "meta/info.json is missing" in found.message


def test_a_dataset_without_frames_is_bad(tiny_root, tmp_path, rewrite, change_json):
    table = tiny_root / "meta/episodes/chunk-000/file-000.parquet"
    for key in ("dataset_from_index", "dataset_to_index", "length"):
        rewrite(table, key, lambda _: [0, 0])
    change_json(tiny_root / "meta/info.json", lambda info: info.update(total_frames=0))
    (found,) = check_folder(tiny_root, None, tmp_path / "home", HERE).findings
    assert (found.check, found.severity) == ("episodes", "bad")


def test_episodes_that_are_not_there_are_the_askers_mistake(tiny_root, tmp_path):
    with pytest.raises(DatasetError, match=r"--dataset\.episodes: unknown episode 7"):
        check_folder(tiny_root, [7], tmp_path / "home", HERE)
