"""How many processor cores this process may use."""

import math
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
OWN_CGROUPS = Path("/proc/self/cgroup")


def num_cores() -> int:
    """Cores the scheduler allows, which may be fewer than the machine has."""
    if sys.platform == "linux":
        return max(1, min(len(os.sched_getaffinity(0)), cgroup_cores(CGROUPS, OWN_CGROUPS)))
    return os.cpu_count() or 1


def cgroup_cores(root: Path, own: Path) -> int:
    """Cores that the CPU quotas of a container or a job amount to, rounded up; or no limit."""
    quotas = [
        quota
        for folder in cgroup_folders("cpu", root, own)
        if (quota := _quota(folder)) is not None
    ]
    return math.ceil(min(quotas)) if quotas else sys.maxsize


def cgroup_folders(controller: str, root: Path, own: Path) -> Iterator[Path]:
    """The cgroups of this process that have a controller, with all their parents."""
    lines = []
    with suppress(OSError):
        lines = own.read_text(encoding="utf-8").splitlines()
    for line in lines:
        _, controllers, place = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        # Version 1 mounts each set of controllers by its name, version 2 all of them at the root.
        mount = root / controllers
        inner = mount / place.strip("/")
        # A container may see the path of its group, but only the group itself at the root.
        yield from (folder for folder in (inner, *inner.parents) if folder.is_relative_to(mount))


def _quota(folder: Path) -> float | None:
    """Cores that one cgroup allows; None if it sets no limit."""
    with suppress(OSError, ValueError):
        quota, period = (folder / "cpu.max").read_text(encoding="utf-8").split()
        return _cpu_ratio(quota, period)
    with suppress(OSError, ValueError):
        quota = (folder / "cpu.cfs_quota_us").read_text(encoding="utf-8")
        return _cpu_ratio(quota, (folder / "cpu.cfs_period_us").read_text(encoding="utf-8"))
    return None


def _cpu_ratio(quota: str, period: str) -> float | None:
    """CPU quota per period, in the format of version 2 (max 100000) or 1 (-1 and 100000)."""
    if quota == "max" or int(quota) <= 0:
        return None
    return int(quota) / int(period)
