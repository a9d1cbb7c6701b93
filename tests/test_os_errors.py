"""Remedies for errors of the operating system."""

import errno
import os

import pytest

from manyhands.os_errors import explain, reading_remedy, writing_remedy


def test_only_a_full_disk_needs_space():
    for number in (errno.ENOSPC, errno.EDQUOT):
        remedy = writing_remedy(OSError(number, "full"), "Set another --output")
        assert remedy == "Free disk space, or set another --output"
    for error in (PermissionError(errno.EACCES, "no"), OSError(errno.EROFS, "no"), ValueError("x")):
        assert writing_remedy(error, "Set another --output") == "Set another --output"


def test_no_copy_helps_against_permissions():
    for number in (errno.EACCES, errno.EPERM):
        assert reading_remedy(OSError(number, "no"), "Copy it").startswith("Check its permissions")
    assert reading_remedy(OSError(errno.EIO, "device"), "Copy it again") == "Copy it again"


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.ENOSPC, "cannot write a.bin: {}. Free disk space, or choose another path"),
        (errno.EACCES, "cannot access a.bin: {}. Check its permissions and those of its folders"),
        (errno.ENOTDIR, "cannot access a.bin: {}. Choose another path"),
    ],
)
def test_an_unexpected_error_names_its_file(number, said):
    error = OSError(number, "as some library words it", "a.bin")
    assert explain(error) == said.format(os.strerror(number))
