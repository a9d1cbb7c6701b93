"""The condition of a file as it is found: present, missing, a pointer, a link, empty or damaged.

A few bytes at both ends are read, so thousands of files are examined within a second.
"""

import os
import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from manyhands import units
from manyhands.os_errors import FORBIDDEN


class Condition(StrEnum):
    """What is found at the path of a file."""

    GOOD = "good"  # As far as a look at its ends tells
    MISSING = "missing"
    LFS_POINTER = "Git LFS pointer"
    ANNEX_LINK = "git-annex link"
    BROKEN_LINK = "broken link"
    EMPTY = "empty"
    NOT_A_FILE = "not a file"
    UNREADABLE = "unreadable"
    FORBIDDEN = "no permission to read"
    DAMAGED = "damaged"


@dataclass(frozen=True)
class FileCondition:
    """The condition of a file, in words that follow its name."""

    condition: Condition
    cause: str = ""

    @property
    def is_good(self) -> bool:
        """Whether nothing speaks against reading it."""
        return self.condition is Condition.GOOD


_HEAD_BYTES = 512
_LFS_STARTS = (b"version https://git-lfs", b"version https://hawser")
_LFS_SIZE = re.compile(rb"^size (\d+)\s*$", re.MULTILINE)
_ANNEX_LINK = ".git/annex/objects/"
_ANNEX_START = b"/annex/objects/"
_PAGE_STARTS = (b"<!doctype html", b"<html")
_GOOD = FileCondition(Condition.GOOD)


def file_condition(path: Path) -> FileCondition:
    """Name the condition of a file without reading all of it."""
    try:
        if not path.exists():
            return _absent(path)
        if not path.is_file():
            return FileCondition(Condition.NOT_A_FILE, "is not a file")
        size = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
            file.seek(max(size - 8, 0))
            tail = file.read(8)
    except OSError as error:
        is_forbidden = error.errno in FORBIDDEN
        condition = Condition.FORBIDDEN if is_forbidden else Condition.UNREADABLE
        return FileCondition(condition, f"cannot be read: {error.strerror or error}")
    if not size:
        return FileCondition(Condition.EMPTY, "is empty (0 bytes)")
    return _replaced(head) or _damage(path, head, tail) or _GOOD


def _absent(path: Path) -> FileCondition:
    if not os.path.lexists(path):
        return FileCondition(Condition.MISSING, "is missing")
    target = path.readlink()
    if _ANNEX_LINK in target.as_posix():
        return FileCondition(Condition.ANNEX_LINK, "is a git-annex link without its content")
    return FileCondition(Condition.BROKEN_LINK, f"is a link to {target}, which is missing")


def _replaced(head: bytes) -> FileCondition | None:
    """Something else in the place of a file: a pointer to it, or a page of a web server."""
    if head.startswith(_LFS_STARTS):
        size = _LFS_SIZE.search(head)
        of_size = f" of {units.num_bytes(int(size[1]))}" if size else ""
        cause = f"is a Git LFS pointer, not the file{of_size} itself"
        return FileCondition(Condition.LFS_POINTER, cause)
    if head.startswith(_ANNEX_START):
        return FileCondition(Condition.ANNEX_LINK, "is a git-annex pointer without its content")
    if head.lstrip().lower().startswith(_PAGE_STARTS):
        return FileCondition(Condition.DAMAGED, "is an HTML page, not the file itself")
    if not head.strip(b"\0"):
        cause = "is damaged: it starts with zeros, as a download that was not completed"
        return FileCondition(Condition.DAMAGED, cause)
    return None


def _damage(path: Path, head: bytes, tail: bytes) -> FileCondition | None:
    """Damage that the ends of a parquet file show."""
    if path.suffix != ".parquet" or (head[:4], tail[-4:]) == (b"PAR1", b"PAR1"):
        return None
    what = "truncated" if head[:4] == b"PAR1" else "not a parquet file"
    return FileCondition(Condition.DAMAGED, f"is damaged: {what}")
