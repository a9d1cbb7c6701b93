"""A stamp that changes with every change of a file, without reading it."""

from pathlib import Path

from manyhands.errors import DatasetError


def stamp_of(path: Path) -> str:
    """Identity, size and times of a file: the time of its last change cannot be set back."""
    try:
        status = path.stat()
    except OSError as error:
        raise DatasetError(
            f"{path} cannot be read: {error.strerror}. Copy or download the dataset again"
        ) from None
    return f"{status.st_ino} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"
