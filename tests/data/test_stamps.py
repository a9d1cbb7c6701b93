"""Files at a glance."""

import os

import pytest

from manyhands.data.locks import read_stamp
from manyhands.errors import DatasetError


def test_a_change_shows_even_when_size_and_time_are_as_before(tmp_path):
    file = tmp_path / "file"
    file.write_text("one")
    status, before = file.stat(), read_stamp(file)
    assert read_stamp(file) == before
    file.write_text("two")
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert read_stamp(file) != before


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DatasetError, match="gone cannot be read: No such file"):
        read_stamp(tmp_path / "gone")
