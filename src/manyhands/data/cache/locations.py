"""Folders and memory for cached frames on this machine."""

import mmap
import os
import platform
import shutil
from pathlib import Path

import psutil

from manyhands.data.cache.store_files import boot_id
from manyhands.data.location import is_in_pod, make_private_folder

_SHARED_MEMORY = Path("/dev/shm")
_LOCAL_FILE_SYSTEMS = {
    *("ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "bcachefs", "jfs", "reiserfs"),
    *("overlay", "tmpfs", "ramfs", "apfs", "hfs", "ufs"),
}


def ram_folder() -> Path | None:
    """This user's folder in memory; None where there is none that can be trusted."""
    if not _SHARED_MEMORY.is_dir() or not os.access(_SHARED_MEMORY, os.W_OK):
        return None
    home = _SHARED_MEMORY / f"manyhands-{os.getuid()}"
    # Everybody may write there: another user could have taken the name.
    return home if make_private_folder(home) else None


def stores_folder(home: Path) -> Path:
    """The folder of all stores under a home."""
    if is_local(home):
        return home / "frames"
    # Machines that share files see each other's writes late and in any order: each has its own. A
    # pod gets a new name each time; pods have in common the boot of the machine below them.
    return home / f"frames-{boot_id() if is_in_pod() else platform.node()}"


def stores_folders(home: Path) -> list[Path]:
    """The same for every machine that has used the home."""
    return sorted(path for path in home.glob("frames*") if path.is_dir())


def is_local(path: Path) -> bool:
    """Whether a path is on a local disk; unknown filesystems count as shared."""
    place = path.resolve()
    # The mount made last hides the ones before it.
    mounts = [*reversed(psutil.disk_partitions(all=True))]
    around = [mount for mount in mounts if place.is_relative_to(mount.mountpoint)]
    nearest = max(around, key=lambda mount: len(mount.mountpoint), default=None)
    return nearest is not None and nearest.fstype in _LOCAL_FILE_SYSTEMS


def free_bytes(path: Path) -> int:
    """Free disk space at a path, which need not exist yet."""
    place = path.absolute()
    existing = next(folder for folder in (place, *place.parents) if folder.exists())
    return shutil.disk_usage(existing).free


_OWN_PAGES = Path("/proc/self/statm")


def mapped_bytes() -> int:
    """How much of all mapped files counts as this process's memory; cheap to ask."""
    try:
        return int(_OWN_PAGES.read_bytes().split()[2]) * mmap.PAGESIZE
    except OSError:
        num_bytes: int = psutil.Process().memory_info().rss
        return num_bytes
