"""Memory available to this process, and its resident mapped files."""

import mmap
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

_OWN_PAGES = Path("/proc/self/statm")
# Files of the limit and the usage, and the statistic of reclaimable usage.
_LIMITS = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


def available_ram(
    groups: Path = Path("/sys/fs/cgroup"), membership: Path = Path("/proc/self/cgroup")
) -> int:
    """Bytes left in the machine, or in the tightest group that limits this process."""
    left = [psutil.virtual_memory().available]
    for folder in _groups(groups, membership):
        left += [_left(folder, *names) for names in _LIMITS]
    return min(left)


def mapped_bytes() -> int:
    """How much of all mapped files counts as this process's memory; cheap to ask."""
    try:
        return int(_OWN_PAGES.read_bytes().split()[2]) * mmap.PAGESIZE
    except OSError:
        num_bytes: int = psutil.Process().memory_info().rss
        return num_bytes


def _groups(groups: Path, membership: Path) -> Iterator[Path]:
    """The groups of this process, from the innermost outward."""
    with suppress(OSError):
        for line in membership.read_text(encoding="utf-8").splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers in ("", "memory"):
                root = groups / controllers
                inner = root / path.lstrip("/")
                yield from (inner, *inner.parents[: len(inner.parts) - len(root.parts)])


def _left(folder: Path, limit: str, usage: str, reclaimable: str) -> int:
    try:
        stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        used = int((folder / usage).read_text()) - int(stat[reclaimable])
        return max(0, int((folder / limit).read_text()) - used)
    except (OSError, ValueError, KeyError):
        # No such group, or no limit: then the file says "max".
        return sys.maxsize
