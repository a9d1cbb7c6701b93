"""Decide whether, where and how many frames are cached, from the free disk and memory."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from manyhands.data.cache.locations import free_bytes
from manyhands.observe.host_memory import host_memory
from manyhands.units import num_bytes

Mode = Literal["auto", "off", "ram", "disk"]
Place = Literal["off", "ram", "disk"]


@dataclass(frozen=True)
class CameraNeed:
    """Size of a camera's frames if all of them are cached."""

    num_frames: int
    frame_bytes: int  # Size of a cached frame; an estimate where sizes differ

    @property
    def num_bytes(self) -> int:
        """Size of all frames."""
        return self.num_frames * self.frame_bytes


@dataclass(frozen=True)
class FreeSpace:
    """Free disk space and memory of this machine."""

    disk_bytes: int  # Free disk space in the folder of the stores
    ram_bytes: int  # Memory available to processes
    shared_memory_bytes: int  # Free shared memory for stores; 0 if there is none


@dataclass(frozen=True, kw_only=True)
class CacheRequest:
    """Inputs of the decision."""

    mode: Mode
    cameras: tuple[CameraNeed, ...]
    free: FreeSpace
    cached_bytes: int = 0  # Size of what is already cached on disk of these cameras
    other_bytes: int = 0  # Size of other stores on disk; it counts against `max_disk`
    max_disk: int | None = None  # None: what is cached, and a quarter of the free space
    max_ram: int | None = None  # Most bytes in memory; None is half of the available memory
    what: str = ""  # What is cached, named in the reason if it is not frames
    otherwise: str = "off, frames are decoded every time"  # The reason if nothing is cached
    all_or_nothing: bool = False  # Whether a fraction of the frames is useless


@dataclass(frozen=True)
class CachePlan:
    """The decision, and its reason as a message."""

    where: Place
    capacities: tuple[int, ...]  # Frames to cache, by camera
    max_bytes: tuple[int, ...]  # Available bytes by camera; may be more than its frames need
    reason: str


def free_space(home: Path, ram_home: Path | None) -> FreeSpace:
    """Measure the free disk space and memory of this machine."""
    shared_memory = 0 if ram_home is None else free_bytes(ram_home)
    return FreeSpace(free_bytes(home), host_memory().available_bytes, shared_memory)


def plan_cache(request: CacheRequest) -> CachePlan:
    """Decide; `auto` wants at least half of the frames on disk, or else all of them in memory."""
    needed = sum(camera.num_bytes for camera in request.cameras)
    if request.mode == "off":
        return _off(request, f"{request.otherwise}: --cache.mode=off")
    if needed == 0:
        return _off(request, "off, no camera frames")
    disk, ram = _disk_budget(request), _ram_budget(request)
    least = needed if request.all_or_nothing else needed / 2
    if request.mode == "disk" or (request.mode == "auto" and disk >= least):
        return _partial_plan(request, "disk", disk)
    if request.mode == "ram" or ram >= needed:
        return _partial_plan(request, "ram", ram)
    return _off(
        request,
        f"{request.otherwise}: {num_bytes(needed)} needed, {num_bytes(disk)} free on disk, "
        f"{num_bytes(ram)} in memory",
    )


def _disk_budget(request: CacheRequest) -> int:
    if request.max_disk is None:
        return request.cached_bytes + request.free.disk_bytes // 4
    # A disk that is filled to the last byte has no place for checkpoints.
    possible = request.cached_bytes + request.free.disk_bytes * 9 // 10
    return max(0, min(request.max_disk - request.other_bytes, possible))


def _ram_budget(request: CacheRequest) -> int:
    free = request.free
    wanted = free.ram_bytes // 2 if request.max_ram is None else request.max_ram
    return min(wanted, free.ram_bytes, free.shared_memory_bytes)


def _partial_plan(request: CacheRequest, where: Place, budget: int) -> CachePlan:
    cameras = request.cameras
    needed = sum(camera.num_bytes for camera in cameras)
    # The same fraction of every camera: a sample is then either cached completely or not at all.
    capacities = [
        min(camera.num_frames, camera.num_frames * budget // needed) for camera in cameras
    ]
    sizes = [budget * camera.num_bytes // needed for camera in cameras]
    place = "on disk" if where == "disk" else "in memory"
    needed_and_free = f"{num_bytes(needed)} needed, {num_bytes(budget)} free"
    if not any(capacities) or (request.all_or_nothing and budget < needed):
        return _off(request, f"{request.otherwise}: {needed_and_free} {place}")
    reason = f"{request.what} {place}, {num_bytes(needed)} of {num_bytes(budget)} free".lstrip()
    if budget < needed:
        reason = f"{place}, {100 * budget // needed} % of frames: {needed_and_free}"
    return CachePlan(where, tuple(capacities), tuple(sizes), reason)


def _off(request: CacheRequest, reason: str) -> CachePlan:
    nothing = (0,) * len(request.cameras)
    return CachePlan("off", nothing, nothing, reason)
