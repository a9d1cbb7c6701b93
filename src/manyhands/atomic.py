"""Atomic writes of files, directories and links.

Everything is written to a scratch path, flushed to the disk and renamed: a reader finds the old
version or the new one, at any moment and after any crash.
"""

import ctypes
import os
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path

AT_FDCWD = -100
RENAME_EXCHANGE = 2


def scratch_path(target: Path) -> Path:
    """Where a file or directory is written before it gets its name."""
    return target.with_name(f".{target.name}.partial")


def is_special(target: Path) -> bool:
    """Whether a target is a device or a pipe, such as /dev/stdout, which nothing can replace."""
    return target.exists() and not target.is_file() and not target.is_dir()


@contextmanager
def atomic_file(target: Path) -> Iterator[Path]:
    """Yield a scratch path that becomes `target` only if the block succeeds."""
    if is_special(target):
        yield target
        return
    scratch = scratch_path(target)
    try:
        yield scratch
        fsync_path(scratch)
        scratch.replace(target)
        fsync_path(target.parent)
    except OSError as error:
        # A write that fails names no file, and the scratch path means nothing to a reader.
        if error.errno is not None and error.filename in (None, str(scratch)):
            error.filename = str(target)
        raise
    finally:
        # It may not have been created, for a reason that is already being raised.
        with suppress(OSError):
            scratch.unlink()


@contextmanager
def atomic_directory(
    target: Path, publishing: AbstractContextManager[None] | None = None
) -> Iterator[Path]:
    """Yield a scratch directory that replaces `target` if the block succeeds.

    `publishing` is entered for the replacement, and prevents it if it raises.
    """
    scratch = scratch_path(target)
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    try:
        yield scratch
        for path in (*scratch.rglob("*"), scratch):
            fsync_path(path)
        with publishing or nullcontext():
            if target.exists():
                swap_paths(scratch, target)
            else:
                scratch.rename(target)
        fsync_path(target.parent)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def swap_paths(one: Path, other: Path) -> None:
    """Swap two paths atomically, so that neither is ever missing."""
    library = ctypes.CDLL(None, use_errno=True)
    paths = (AT_FDCWD, bytes(one), AT_FDCWD, bytes(other))
    if hasattr(library, "renameat2") and library.renameat2(*paths, RENAME_EXCHANGE) == 0:
        return
    # Outside Linux `other` is missing for a moment.
    aside = other.with_name(f".{other.name}.aside")
    other.rename(aside)
    one.rename(other)
    aside.rename(one)


def replace_symlink(link: Path, target: str) -> None:
    """Point a relative symbolic link at `target` atomically."""
    scratch = link.with_name(f".{link.name}.partial")
    scratch.unlink(missing_ok=True)
    scratch.symlink_to(target)
    scratch.replace(link)
    fsync_path(link.parent)


def fsync_path(path: Path) -> None:
    """Flush a file or directory to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
