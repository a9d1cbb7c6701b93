"""Whether, where and how many frames are kept, decided from the room there is."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from manyhands.data.cache.memory import available_ram
from manyhands.data.cache.root import free_bytes
from manyhands.units import num_bytes

Mode = Literal["auto", "off", "ram", "disk"]
Place = Literal["off", "ram", "disk"]


@dataclass(frozen=True)
class CameraNeed:
    """What one camera would take up if all its frames were kept."""

    num_frames: int
    frame_bytes: int
    """Size of a kept frame; an estimate where sizes differ."""

    @property
    def num_bytes(self) -> int:
        """Size of all frames."""
        return self.num_frames * self.frame_bytes


@dataclass(frozen=True)
class Room:
    """What the machine has left."""

    disk_bytes: int
    """Free space where stores on disk lie."""
    ram_bytes: int
    """Memory that processes may still take."""
    shared_memory_bytes: int
    """Free space where stores in memory lie; 0 where they cannot."""


@dataclass(frozen=True, kw_only=True)
class CacheRequest:
    """All that the decision depends on."""

    mode: Mode
    cameras: tuple[CameraNeed, ...]
    room: Room
    cached_bytes: int = 0
    """What these cameras take up on the disk already."""
    other_bytes: int = 0
    """What other stores take up there; it counts against `max_disk`."""
    max_disk: int | None = None
    """Most bytes on the disk; None is a quarter of the free space beyond what is kept already."""
    max_ram: int | None = None
    """Most bytes in memory; None is half of what is left."""
    what: str = "frames"
    """What is kept, as people are told."""
    otherwise: str = "frames are decoded each time"
    """What becomes of those that are not kept."""
    all_or_nothing: bool = False
    """Whether a part of them is of no use."""


@dataclass(frozen=True)
class CachePlan:
    """The decision, and a sentence that tells people why."""

    where: Place
    capacities: tuple[int, ...]
    """Frames to keep, by camera."""
    max_bytes: tuple[int, ...]
    """The room there is for each camera, which may be more than its frames need."""
    reason: str


def measure_room(home: Path, ram_home: Path | None) -> Room:
    """The room on this machine now."""
    shared_memory = 0 if ram_home is None else free_bytes(ram_home)
    return Room(free_bytes(home), available_ram(), shared_memory)


def plan_cache(request: CacheRequest) -> CachePlan:
    """Decide; `auto` wants at least half of the frames on disk, or else all of them in memory."""
    needed = sum(camera.num_bytes for camera in request.cameras)
    if request.mode == "off":
        return _off(request, f"{request.otherwise}: the cache is switched off")
    if needed == 0:
        return _off(request, "there are no camera frames to keep")
    disk, ram = _disk_budget(request), _ram_budget(request)
    least = needed if request.all_or_nothing else needed / 2
    if request.mode == "disk" or (request.mode == "auto" and disk >= least):
        return _kept(request, "disk", disk)
    if request.mode == "ram" or ram >= needed:
        return _kept(request, "ram", ram)
    return _off(
        request,
        f"{request.otherwise}: all of them need {num_bytes(needed)}, and there is room "
        f"for {num_bytes(disk)} on disk and {num_bytes(ram)} in memory",
    )


def _disk_budget(request: CacheRequest) -> int:
    if request.max_disk is None:
        return request.cached_bytes + request.room.disk_bytes // 4
    # A disk that is filled to the last byte has no place for checkpoints.
    possible = request.cached_bytes + request.room.disk_bytes * 9 // 10
    return max(0, min(request.max_disk - request.other_bytes, possible))


def _ram_budget(request: CacheRequest) -> int:
    room = request.room
    wanted = room.ram_bytes // 2 if request.max_ram is None else request.max_ram
    return min(wanted, room.ram_bytes, room.shared_memory_bytes)


def _kept(request: CacheRequest, where: Place, budget: int) -> CachePlan:
    cameras = request.cameras
    needed = sum(camera.num_bytes for camera in cameras)
    # The same share of every camera: a sample is then whole in the cache or not in it at all.
    capacities = [
        min(camera.num_frames, camera.num_frames * budget // needed) for camera in cameras
    ]
    sizes = [budget * camera.num_bytes // needed for camera in cameras]
    place = "on disk" if where == "disk" else "in memory"
    told = f"{num_bytes(needed)}, and there is room for {num_bytes(budget)} {place}"
    if not any(capacities) or (request.all_or_nothing and budget < needed):
        return _off(request, f"{request.otherwise}: all of them need {told}")
    share = "all" if budget >= needed else f"{100 * budget // needed} % of the"
    return CachePlan(
        where,
        tuple(capacities),
        tuple(sizes),
        f"{share} {request.what} are kept {place}: all of them need {told}",
    )


def _off(request: CacheRequest, reason: str) -> CachePlan:
    nothing = (0,) * len(request.cameras)
    return CachePlan("off", nothing, nothing, reason)
