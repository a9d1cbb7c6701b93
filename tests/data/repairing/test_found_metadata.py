"""Metadata is read as far as it goes."""

import pytest

from manyhands.data.repairing.found_metadata import read_metadata
from manyhands.data.repairing.report import RepairReport


def test_both_versions_say_the_same(plain_root, old_root):
    report = RepairReport()
    new, old = read_metadata(plain_root, report), read_metadata(old_root, report)
    assert report.repairs == []
    assert new.tasks == old.tasks == {0: "task 0", 1: "task 1", 2: "task 2"}
    for number, length in enumerate((5, 3, 6)):
        assert new.episodes[number].length == old.episodes[number].length == length
        assert new.episodes[number].tasks == old.episodes[number].tasks
    assert new.episodes[1].videos == {"observation.images.top": (0, 0, 0.5)}
    assert old.episodes[1].videos == {}


@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [
        ("meta/info.json", b"{", "is damaged"),
        ("meta/info.json", None, "is missing"),
        ("meta/info.json", b"", "is empty"),
        ("meta/tasks.jsonl", b'{"task_index": 0, "task": "a"}\n{"task', "is damaged"),
        ("meta/episodes.jsonl", b"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"),
    ],
)
def test_what_cannot_be_read_is_noted(old_root, name, content, fault):
    if content is None:
        (old_root / name).unlink()
    else:
        (old_root / name).write_bytes(content)
    report = RepairReport()
    read_metadata(old_root, report)
    (repair,) = report.repairs
    assert fault in repair.fault
    assert repair.where == name
    assert repair.repair == "rebuilt from the data files"
