"""Memory of this machine, or of the container or job that limits this process."""

import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import psutil

from manyhands.cores import CGROUPS, OWN_CGROUPS, cgroup_folders

FILES = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
"""Files of the limit and the usage, and the statistic of reclaimable usage, of both versions."""


class HostMemory(NamedTuple):
    """Memory that this process and others of its container or job may use."""

    total_bytes: int
    available_bytes: int
    machine_bytes: int
    """Memory of the machine, which may be more."""

    @property
    def used_bytes(self) -> int:
        """What is not available, whoever uses it."""
        return self.total_bytes - self.available_bytes


def host_memory(root: Path = CGROUPS, own: Path = OWN_CGROUPS) -> HostMemory:
    """The memory of the machine, or of the tightest group that limits this process."""
    machine = psutil.virtual_memory()
    limits = [*cgroup_limits(root, own)]
    total = min([machine.total, *(limit for limit, _ in limits)])
    available = min([machine.available, *(left for _, left in limits)])
    return HostMemory(total, min(available, total), machine.total)


def cgroup_limits(root: Path, own: Path) -> Iterator[tuple[int, int]]:
    """The limit of every group of this process, and what is left of it."""
    for folder in cgroup_folders("memory", root, own):
        for limit, usage, reclaimable in FILES:
            # No such group, or no limit: then the file says "max".
            with suppress(OSError, ValueError, KeyError):
                most = int((folder / limit).read_text())
                lines = (folder / "memory.stat").read_text().splitlines()
                stat = dict(line.split() for line in lines)
                used = int((folder / usage).read_text()) - int(stat[reclaimable])
                yield min(most, sys.maxsize), max(0, most - used)
