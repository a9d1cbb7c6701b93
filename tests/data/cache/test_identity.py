"""What kept frames were made from."""

import json
import os
import time
from dataclasses import replace

import pytest

from manyhands.data.cache import identity
from manyhands.data.cache.identity import (
    PixelOrigin,
    file_digests,
    file_stamp,
    store_key,
)
from manyhands.errors import DatasetError

ORIGIN = PixelOrigin(["a", "b"], "t", (3, 96, 96), "|u1", "raw")


@pytest.fixture
def home(tmp_path):
    return tmp_path / "home"


@pytest.fixture(autouse=True)
def files_settle_at_once(monkeypatch):
    monkeypatch.setattr(identity, "_TICK_S", 0.05)


def settled(path, content):
    path.write_bytes(content)
    time.sleep(0.06)
    return path


def file_digest(path, home):
    (digest,) = file_digests([path], home)
    return digest


def forge_memos(home):
    """Make every remembered digest a text that shows where it comes from."""
    for path in (home / "digests").glob("*.json"):
        memo = {name: [stamp, "remembered"] for name, (stamp, _) in read_memo(path).items()}
        path.write_text(json.dumps(memo))


def read_memo(path):
    return json.loads(path.read_text())


def test_equal_contents_have_equal_digests_and_no_others(tmp_path, home):
    contents = [b"one", b"two", b"one", b"", os.urandom(3_000_000)]
    paths = [tmp_path / f"{number}.mp4" for number in range(5)]
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    digests = file_digests(paths, home)
    assert digests[0] == digests[2]
    assert len(set(digests)) == 4
    assert file_digests([*paths, paths[0]], tmp_path / "other") == [*digests, digests[0]]


def test_a_file_is_read_once_per_version(tmp_path, home):
    path = settled(tmp_path / "a.mp4", b"one")
    first = file_digest(path, home)
    forge_memos(home)
    assert file_digest(path, home) == "remembered"
    settled(path, b"two!")
    second = file_digest(path, home)
    assert second not in ("remembered", first)
    assert [len(read_memo(each)) for each in (home / "digests").glob("*.json")] == [1]


def test_a_change_is_noticed_although_size_and_time_are_set_back(tmp_path, home):
    path = settled(tmp_path / "a.mp4", b"one")
    before = path.stat()
    stamp, first = file_stamp(path), file_digest(path, home)
    settled(path, b"two")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = path.stat()
    assert (after.st_mtime_ns, after.st_size) == (before.st_mtime_ns, before.st_size)
    assert file_stamp(path) != stamp
    second = file_digest(path, home)
    assert second != first
    assert store_key(replace(ORIGIN, file_digests=[first])) != store_key(
        replace(ORIGIN, file_digests=[second])
    )


def test_a_file_that_was_just_changed_is_not_remembered(tmp_path, home, monkeypatch):
    monkeypatch.setattr(identity, "_TICK_S", 60)
    path = settled(tmp_path / "a.mp4", b"one")
    file_digest(path, home)
    assert not [*(home / "digests").glob("*.json")]


def test_files_of_several_folders_are_remembered(tmp_path, home):
    paths = [tmp_path / name / "a.mp4" for name in "xyz"]
    for path in paths:
        path.parent.mkdir()
        settled(path, path.parent.name.encode())
    file_digests(paths[:2], home)
    file_digests(paths[2:], home)
    forge_memos(home)
    assert file_digests(paths, home) == ["remembered"] * 3


@pytest.mark.parametrize("content", ["", "[]", "{", '{"a": 1}', '{"a": ["x", "y"]}'])
def test_a_damaged_memo_is_forgotten(tmp_path, home, content):
    path = settled(tmp_path / "a.mp4", b"one")
    first = file_digest(path, home)
    for memo in (home / "digests").glob("*.json"):
        memo.write_text(content.replace('"a"', json.dumps(str(path))))
    assert file_digest(path, home) == first


def test_a_home_that_cannot_be_written_to_only_forgets(tmp_path, home):
    path = settled(tmp_path / "a.mp4", b"one")
    expected = file_digest(path, home)
    (tmp_path / "file").write_text("in the way")
    assert file_digest(path, tmp_path / "file") == expected


def test_a_missing_file_is_told(tmp_path, home):
    with pytest.raises(DatasetError, match=r"gone.mp4 cannot be read: No such file"):
        file_digest(tmp_path / "gone.mp4", home)
    with pytest.raises(DatasetError, match="Is a directory"):
        file_digest(tmp_path, home)


@pytest.mark.parametrize(
    "changes",
    [
        {"file_digests": ["b", "a"]},
        {"file_digests": ["a"]},
        {"file_digests": ["ab"]},
        {"table_digest": "u"},
        {"shape": (3, 96, 64)},
        {"dtype": "<f4"},
        {"encoding": "jpeg"},
        {"resize": (96, 96)},
    ],
)
def test_whatever_decides_the_pixels_changes_the_key(changes):
    assert store_key(replace(ORIGIN, **changes)) != store_key(ORIGIN)


def test_a_key_is_a_plain_name_and_always_the_same():
    assert (
        store_key(ORIGIN)
        == store_key(replace(ORIGIN))
        == store_key(replace(ORIGIN, shape=(3, 96, 96)))
    )
    assert len(store_key(ORIGIN)) == 40 and store_key(ORIGIN).isalnum()


def test_a_new_decoder_or_a_change_of_ours_changes_the_key(monkeypatch):
    before = store_key(ORIGIN)
    with monkeypatch.context() as patch:
        patch.setattr(identity, "_REVISION", 2)
        assert store_key(ORIGIN) != before
    versions = identity.av.library_versions
    monkeypatch.setitem(versions, "libswscale", (0, 0, 1))
    assert store_key(ORIGIN) != before
