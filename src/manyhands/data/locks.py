"""Locks between processes, which the system takes back from a process that dies."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep all others out, threads of this process too, until the block ends."""
    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def join(path: Path) -> FileIO:
    """Count as a user of a file for as long as the result, or a forked copy of it, is open."""
    file = FileIO(path, "r+")
    fcntl.flock(file, fcntl.LOCK_SH)
    return file


def has_users(path: Path) -> bool:
    """Whether anybody has joined a file and is still there."""
    try:
        with FileIO(path, "r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    return False
