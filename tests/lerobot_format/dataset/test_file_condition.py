"""The condition of a file, named by a look at its ends."""

import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from manyhands.lerobot_format.dataset.file_condition import Condition, file_condition

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12582912\n"


@pytest.mark.parametrize(
    ("content", "condition", "words"),
    [
        (b"", Condition.EMPTY, "0 bytes"),
        (POINTER.encode(), Condition.LFS_POINTER, "not the file of 12.0 MiB itself"),
        (b"/annex/objects/MD5E-s9--0.mp4\n", Condition.ANNEX_LINK, "git-annex pointer"),
        (b"<!DOCTYPE html><title>Sign in", Condition.DAMAGED, "HTML page"),
        (bytes(4096), Condition.DAMAGED, "not completed"),
        (b"PAR1 and no more", Condition.DAMAGED, "truncated"),
        (b"something else", Condition.DAMAGED, "not a parquet file"),
    ],
)
def test_what_stands_in_for_a_file_is_named(tmp_path, content, condition, words):
    path = tmp_path / "file.parquet"
    path.write_bytes(content)
    found = file_condition(path)
    assert found.condition is condition and words in found.cause
    assert not found.is_good


def test_links_folders_and_nothing_are_told_apart(tmp_path):
    (tmp_path / "annexed").symlink_to("../.git/annex/objects/1/2/MD5E-s9--0/MD5E-s9--0")
    (tmp_path / "broken").symlink_to("../../blobs/0123")
    (tmp_path / "folder").mkdir()
    found = {name: file_condition(tmp_path / name) for name in ("annexed", "broken", "folder", "x")}
    assert [each.condition for each in found.values()] == [
        Condition.ANNEX_LINK,
        Condition.BROKEN_LINK,
        Condition.NOT_A_FILE,
        Condition.MISSING,
    ]
    assert "../../blobs/0123" in found["broken"].cause


def test_a_good_file_is_good_and_videos_are_left_to_the_decoder(tmp_path):
    pq.write_table(pa.table({"a": [1]}), tmp_path / "a.parquet")
    (tmp_path / "a.mp4").write_bytes(b"anything")
    assert file_condition(tmp_path / "a.parquet").is_good
    assert file_condition(tmp_path / "a.mp4").is_good


@pytest.mark.skipif(os.getuid() == 0, reason="root reads everything")
def test_a_file_without_permission_is_forbidden(tmp_path):
    path = tmp_path / "a.mp4"
    path.write_bytes(b"x")
    path.chmod(0)
    assert file_condition(path).condition is Condition.FORBIDDEN
