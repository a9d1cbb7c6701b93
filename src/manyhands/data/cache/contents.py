"""List, sum up and remove the stores under a home.

Removing is safe while a run reads or writes: files without a name live until they are closed.
"""

import os
import shutil
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from manyhands.data.cache.locations import stores_folder, stores_folders
from manyhands.data.cache.store_files import DURABLE, STATES, USERS, WRITTEN, boot_id, read_manifest
from manyhands.data.locks import is_in_use, locked

LOCK = ".lock"  # Lock file in the folder of all stores, held to create, open or remove a store
BLOCK_BYTES = 512  # Unit of `st_blocks`


@dataclass(frozen=True)
class StoreSummary:
    """A store as listed for users; a damaged one has no description."""

    key: str
    folder: Path
    description: dict[str, str]
    encoding: str
    num_present: int
    num_frames: int
    disk_bytes: int
    last_used: float  # In seconds since 1970


def cached_stores(home: Path) -> list[StoreSummary]:
    """All stores, most recently used first."""
    summaries = []
    for folder in [path for parent in stores_folders(home) for path in _store_folders(parent)]:
        # Another process may just be removing it.
        with suppress(FileNotFoundError):
            summaries.append(_summary(folder))
    return sorted(summaries, key=lambda summary: -summary.last_used)


def clear(home: Path, only: Collection[str] | None = None) -> int:
    """Remove all stores, or those of some keys, with leftovers; return the bytes freed."""
    freed_bytes = 0
    for parent in stores_folders(home):
        with locked(parent / LOCK):
            stores = _store_folders(parent)
            wanted = [path for path in stores if only is None or path.name in only]
            freed_bytes += sum(_remove(folder) for folder in [*wanted, *_leftovers(parent)])
    return freed_bytes


def release_unused(home: Path) -> None:
    """Remove the stores that no process has open, such as those of a killed run."""
    parent = stores_folder(home)
    if not parent.is_dir():
        return
    with locked(parent / LOCK):
        unused = [path for path in _store_folders(parent) if not is_in_use(path / USERS)]
        for folder in [*unused, *_leftovers(parent)]:
            _remove(folder)


def remove_unused(folder: Path) -> None:
    """Remove a store unless a process has it open."""
    with suppress(OSError), locked(folder.parent / LOCK):
        if not is_in_use(folder / USERS):
            _remove(folder)


def _store_folders(parent: Path) -> list[Path]:
    return sorted(
        path for path in parent.iterdir() if path.is_dir() and not path.name.startswith(".")
    )


def _leftovers(parent: Path) -> list[Path]:
    """Folders that a killed process was creating or removing."""
    return [path for path in parent.iterdir() if path.is_dir() and path.name.startswith(".")]


def _remove(folder: Path) -> int:
    num_bytes = _disk_bytes(folder)
    gone = folder.with_name(f".{folder.name.lstrip('.')}.gone-{os.getpid()}")
    # Under its own name a folder is complete or absent.
    folder.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)
    return num_bytes


def _disk_bytes(folder: Path) -> int:
    return sum(path.stat().st_blocks * BLOCK_BYTES for path in folder.iterdir())


def _summary(folder: Path) -> StoreSummary:
    manifest = read_manifest(folder) or {}
    states = np.zeros(0, np.uint8)
    last_used = folder.stat().st_mtime
    with suppress(OSError):
        states = np.fromfile(folder / STATES, np.uint8)
        last_used = (folder / USERS).stat().st_mtime
    counted = {DURABLE, WRITTEN} if manifest.get("boot_id") == boot_id() else {DURABLE}
    return StoreSummary(
        key=folder.name,
        folder=folder,
        description=manifest.get("description", {}),
        encoding=manifest.get("encoding", "unknown"),
        num_present=int(np.isin(states, [*counted]).sum()) if manifest else 0,
        num_frames=manifest.get("num_frames", 0),
        disk_bytes=_disk_bytes(folder),
        last_used=last_used,
    )
