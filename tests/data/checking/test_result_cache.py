"""Results that are kept."""

import json
import os

import pytest

from manyhands.data.checking import result_cache
from manyhands.data.checking.check import CheckOptions
from manyhands.data.checking.result_cache import CHECKS_FOLDER, check_once, dataset_state

FILE = "data/chunk-000/file-000.parquet"
VIDEO = "videos/observation.images.top/chunk-000/file-000.mp4"
HERE = CheckOptions(num_workers=0)


def quick(**how):
    return CheckOptions(num_workers=0, thoroughness="quick", **how)


def test_an_unchanged_dataset_is_looked_at_once(source_of, tiny_root, tmp_path, rewrite):
    rewrite(tiny_root / FILE, "action", lambda values: [[float("nan"), 0.0]] * len(values))
    first = check_once(source_of(tiny_root), tmp_path / "home", HERE)
    second = check_once(source_of(tiny_root), tmp_path / "home", HERE)
    assert not first.cached and second.cached
    assert second.findings == first.findings != ()
    assert second.looked_at == first.looked_at
    assert second.keys == first.keys


@pytest.mark.parametrize("file", [FILE, VIDEO, "meta/stats.json"])
def test_any_change_is_noticed(source_of, tiny_root, tmp_path, file):
    check_once(source_of(tiny_root), tmp_path / "home", HERE)
    path = tiny_root / file
    status = path.stat()
    content = bytearray(path.read_bytes())
    path.write_bytes(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert not check_once(source_of(tiny_root), tmp_path / "home", HERE).cached


def test_a_missing_file_is_a_change(source_of, tiny_root):
    before = dataset_state(source_of(tiny_root))
    (tiny_root / VIDEO).unlink()
    assert dataset_state(source_of(tiny_root)) != before


def test_a_thorough_look_at_all_answers_for_less(source_of, tiny_root, tmp_path):
    home = tmp_path / "home"
    check_once(source_of(tiny_root), home, HERE)
    narrow = check_once(source_of(tiny_root, [1]), home, quick(keys=["action"]))
    assert narrow.cached
    assert (narrow.num_episodes, narrow.num_frames, narrow.keys) == (1, 3, ("action",))
    assert narrow.thoroughness == "full"


def test_a_look_at_less_does_not_answer_for_more(source_of, tiny_root, tmp_path):
    home = tmp_path / "home"
    check_once(source_of(tiny_root, [1]), home, quick(keys=["action"]))
    assert check_once(source_of(tiny_root, [1]), home, quick(keys=["action"])).cached
    assert not check_once(source_of(tiny_root), home, quick(keys=["action"])).cached
    assert not check_once(source_of(tiny_root, [1]), home, quick()).cached
    assert not check_once(source_of(tiny_root, [1]), home, CheckOptions(keys=["action"])).cached


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b'{"findings": [{}]}', b"\xff\xfe"])
def test_a_damaged_result_is_made_anew(source_of, tiny_root, tmp_path, content):
    home = tmp_path / "home"
    check_once(source_of(tiny_root), home, HERE)
    (kept,) = (home / CHECKS_FOLDER).iterdir()
    kept.write_bytes(content)
    assert not check_once(source_of(tiny_root), home, HERE).cached
    assert json.loads(kept.read_text())["num_frames"] == 6
    assert check_once(source_of(tiny_root), home, HERE).cached


def test_a_result_of_checks_with_other_names_is_not_read(
    source_of, tiny_root, tmp_path, monkeypatch
):
    with monkeypatch.context() as earlier:
        earlier.setattr(result_cache, "CHECKS", ("metadata", "pictures"))
        check_once(source_of(tiny_root), tmp_path / "home", HERE)
    assert not check_once(source_of(tiny_root), tmp_path / "home", HERE).cached


def test_without_a_place_to_keep_it_the_result_is_the_same(source_of, tiny_root, tmp_path):
    (tmp_path / "home").touch()
    for _ in range(2):
        result = check_once(source_of(tiny_root), tmp_path / "home", HERE)
        assert result.is_usable and not result.cached


def test_what_changes_meanwhile_is_not_kept(source_of, tiny_root, tmp_path):
    def meddle(done, total):
        (tiny_root / "meta/stats.json").touch()

    changing = CheckOptions(num_workers=0, on_progress=meddle)
    check_once(source_of(tiny_root), tmp_path / "home", changing)
    assert not (tmp_path / "home" / CHECKS_FOLDER).exists()
