"""Whether files and folders can be written, found before any work is done for them."""

import errno
import os
import tempfile
from pathlib import Path

from manyhands.atomic import is_special, scratch_path
from manyhands.os_errors import reason_of, writing_remedy


def folder_fault(flag: str, folder: Path) -> str | None:
    """Why a folder of a flag, which need not exist yet, cannot be written; None if it can."""
    try:
        obstacle = _folder_obstacle(folder)
    except (OSError, ValueError) as error:
        return _unwritable(flag, folder, error)
    return None if obstacle is None else f"{flag}={folder}: {obstacle}. Set another {flag}"


def file_fault(flag: str, file: Path) -> str | None:
    """Why a file of a flag cannot be written; None if it can."""
    folder = file.parent
    try:
        if file.is_dir():
            return f"{flag}={file} is a folder. Name a file in it, as {flag}={file / 'NAME'}"
        if not folder.exists():
            return f"{flag}={file}: folder {folder} does not exist. Create it: mkdir -p {folder}"
        if not folder.is_dir():
            return f"{flag}={file}: {folder} is a file, not a folder. Set another {flag}"
        if not is_special(file):
            _check_names(folder, scratch_path(file))
            _try_file(folder)
    except (OSError, ValueError) as error:
        return _unwritable(flag, file, error)
    return None


def json_faults(file: Path | None) -> list[str]:
    """Why results cannot be written to the file of --json."""
    fault = None if file is None else file_fault("--json", file)
    return [] if fault is None else [fault]


def _unwritable(flag: str, path: Path, error: Exception) -> str:
    remedy = writing_remedy(error, f"Set another {flag}")
    return f"cannot write {flag}={path}: {reason_of(error)}. {remedy}"


def _folder_obstacle(folder: Path) -> str | None:
    """What is in the way of a folder; raises if the system rejects a new folder there."""
    nearest = next(each for each in (folder, *folder.parents) if os.path.lexists(each))
    if nearest.is_symlink() and not nearest.exists():
        return f"{nearest} is a link to {nearest.readlink()}, which does not exist"
    if not nearest.is_dir():
        return f"{nearest} is a file, not a folder"
    _check_names(nearest, folder)
    try:
        # Not the folder itself: other runs that start now may create and use its parents.
        Path(tempfile.mkdtemp(prefix=".manyhands-", dir=nearest)).rmdir()
    except FileNotFoundError:
        return f"{nearest} accepts no new folders"
    return None


def _check_names(place: Path, path: Path) -> None:
    """Raise if no file of a place can have such a name."""
    if "\0" in str(path):
        raise ValueError("embedded null byte")
    if max((len(os.fsencode(part)) for part in path.parts), default=0) > (
        os.pathconf(place, "PC_NAME_MAX")
    ):
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))


def _try_file(folder: Path) -> None:
    """Create and remove a file."""
    try:
        with tempfile.NamedTemporaryFile(prefix=".manyhands-", dir=folder):
            pass
    except FileNotFoundError:
        raise ValueError(f"{folder} accepts no new files") from None
