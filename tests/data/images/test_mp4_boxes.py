"""Boxes of an MP4 file."""

import pytest

from manyhands.data.images.mp4_boxes import mp4_fault


def box(kind, size, content=b""):
    return size.to_bytes(4, "big") + kind + content


FTYP = box(b"ftyp", 12, b"isom")
LONG = (1).to_bytes(4, "big") + b"mdat" + (20).to_bytes(8, "big") + b"abcd"


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (FTYP + box(b"moov", 8) + LONG, None),
        (FTYP + LONG, "it has no index; its recording was not finished"),
        (FTYP + box(b"mdat", 500, b"abc"), "truncated, it has 23 bytes of 512 or more"),
        (FTYP + box(b"moov", 8) + b"\0\0\0\0rest", None),
        (b"no boxes at all", None),
        (b"", None),
    ],
)
def test_what_is_missing_is_named(tmp_path, content, fault):
    path = tmp_path / "a.mp4"
    path.write_bytes(content)
    assert mp4_fault(path) == fault


def test_a_file_that_is_gone_has_no_boxes(tmp_path):
    assert mp4_fault(tmp_path / "gone") is None
