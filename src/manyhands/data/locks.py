"""Locks between processes, which the system takes back from a process that dies.

Some network filesystems have none. Processes there continue without and warn once.
"""

import errno
import fcntl
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedWriter, FileIO
from pathlib import Path

from manyhands.lerobot_format.dataset.unusable_file import unreadable_file

NO_LOCKS = {errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}  # Filesystem without locks


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock until the block ends, also against threads of this process."""
    with path.open("ab") as file:
        lock(file, fcntl.LOCK_EX)
        yield


def hold_shared(path: Path) -> FileIO:
    """Count as a user of a file for as long as the result, or a forked copy of it, is open."""
    file = FileIO(path, "r+")
    lock(file, fcntl.LOCK_SH)
    return file


def is_in_use(path: Path) -> bool:
    """Whether a process has joined a file; true if that is unknown."""
    try:
        with FileIO(path, "r+") as file:
            return not lock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False


def lock(file: FileIO | BufferedWriter, kind: int) -> bool:
    """Lock an open file; return whether its filesystem supports it."""
    try:
        fcntl.flock(file, kind)
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        warn_of_no_locks(Path(file.name).parent, error)
        return False
    return True


def warn_of_no_locks(folder: Path, error: OSError) -> None:
    """Warn once about a filesystem without locks."""
    warnings.warn(
        f"{folder} is on a filesystem without file locks ({error.strerror}). Run one job at a "
        "time on this cache or output folder",
        RuntimeWarning,
        stacklevel=4,
    )


def read_stamp(path: Path) -> str:
    """Identity, size and times of a file: the time of its last change cannot be set back."""
    try:
        status = path.stat()
    except OSError as error:
        raise unreadable_file(path, error) from None
    return f"{status.st_ino} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"
