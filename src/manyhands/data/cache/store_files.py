"""The folder of a store: created atomically, checked before use, recreated if it is damaged.

store.json  description of the store, and the boot of the machine it was last opened under
frames.bin  the pixels
index.bin   position of every frame in frames.bin; only if their sizes differ
state.bin   one byte per frame: absent, written or durable
users       locked by every process that has the store open; its mtime is the last opening

Pixels can be lost in a crash of the machine although their state byte is not. So `written` counts
only until the machine reboots; `durable` marks pixels that are known to be on the disk.
"""

import json
import mmap
import os
import struct
from contextlib import suppress
from dataclasses import dataclass, field
from io import FileIO
from math import prod
from pathlib import Path
from typing import Any, Literal

import numpy as np
import psutil

from manyhands.atomic import atomic_directory, atomic_file, fsync_path

Encoding = Literal["raw", "jpeg"]


@dataclass(frozen=True)
class StoreSpec:
    """The frames of a store."""

    key: str  # Name of the store, unique to its pixels
    shape: tuple[int, ...]
    dtype: np.dtype
    num_frames: int
    encoding: Encoding = "raw"
    description: dict[str, str] = field(default_factory=dict)  # Shown to users: dataset, camera

    def __post_init__(self) -> None:
        assert self.num_frames > 0 and prod(self.shape) > 0
        if self.encoding == "jpeg":
            assert self.dtype == np.uint8 and len(self.shape) == 3 and self.shape[0] == 3

    @property
    def frame_bytes(self) -> int:
        """Size of a frame in memory."""
        return prod(self.shape) * self.dtype.itemsize

    def capacity(self, max_bytes: int) -> int:
        """Number of frames, the first ones, that fit into so many bytes."""
        if self.encoding == "jpeg":
            return self.num_frames
        return min(self.num_frames, max_bytes // self.frame_bytes)


ABSENT, WRITTEN, DURABLE = 0, 1, 2


class FrameStates:
    """The state of every frame, shared with all processes that have the file open."""

    def __init__(self, path: Path) -> None:
        self._file = FileIO(path, "r+")
        self._states = np.frombuffer(
            mmap.mmap(self._file.fileno(), 0, prot=mmap.PROT_READ), np.uint8
        )

    def is_present(self, frame: int) -> bool:
        """Whether a frame is there."""
        return bool(self._states[frame] != ABSENT)

    def are_present(self, frames: np.ndarray) -> np.ndarray:
        """Whether each frame is there."""
        present: np.ndarray = self._states[frames] != ABSENT
        return present

    def written(self) -> np.ndarray:
        """Frames that are written but not durable."""
        return np.flatnonzero(self._states == WRITTEN)

    def mark(self, frame: int, state: int) -> None:
        """Set the state of a frame; a system call orders it after the pixels for all readers."""
        os.pwrite(self._file.fileno(), bytes([state]), frame)

    def mark_all(self, frames: np.ndarray, state: int) -> None:
        """Set the state of many frames, which must be ascending."""
        borders = np.flatnonzero(np.diff(frames) != 1) + 1
        for run in filter(len, np.split(frames, borders)):
            os.pwrite(self._file.fileno(), bytes([state]) * len(run), int(run[0]))

    def flush(self) -> None:
        """Bring the states onto the disk."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        self._file.close()


MANIFEST = "store.json"
FRAMES = "frames.bin"
INDEX = "index.bin"
STATES = "state.bin"
USERS = "users"
INDEX_ENTRY = struct.Struct("<QII")  # Offset, length and checksum of a frame
_FORMAT = 1
_AHEAD_BYTES = 8 * 1024**2
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

Manifest = dict[str, Any]


def boot_id() -> str:
    """A name of the machine's current boot."""
    with suppress(OSError):
        return _BOOT_ID.read_text(encoding="ascii").strip()
    return f"started {psutil.boot_time():.0f}"


def prepare_folder(folder: Path, spec: StoreSpec, capacity: int) -> None:
    """Make the folder a valid store of that capacity; its parent is locked."""
    manifest = read_manifest(folder)
    if manifest is None or not _is_sound(folder, spec, manifest):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with atomic_directory(folder) as scratch:
            for name, size in _file_sizes(spec, capacity).items():
                (scratch / name).touch()
                os.truncate(scratch / name, size)
            manifest = _describe(spec, capacity)
            (scratch / MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")
        return
    wanted = _describe(spec, max(capacity, manifest["capacity"]))
    if wanted == manifest:
        return
    if manifest["boot_id"] != wanted["boot_id"]:
        _forget_written(folder)
    if capacity > manifest["capacity"]:
        for name, size in _file_sizes(spec, capacity).items():
            if (folder / name).stat().st_size < size:
                os.truncate(folder / name, size)
    with atomic_file(folder / MANIFEST) as scratch:
        scratch.write_text(json.dumps(wanted), encoding="utf-8")


def read_manifest(folder: Path) -> Manifest | None:
    """The description of the store; None if it cannot be read."""
    with suppress(OSError, ValueError):
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        if isinstance(manifest, dict) and manifest.get("format") == _FORMAT:
            return manifest
    return None


def write_all(file: FileIO, content: bytes | memoryview, offset: int) -> None:
    """Write all of the content; a full disk writes some bytes before it fails."""
    rest = memoryview(content)
    while rest:
        num_written = os.pwrite(file.fileno(), rest, offset)
        rest, offset = rest[num_written:], offset + num_written


def read_ahead(file: FileIO) -> None:
    """Bring a file from the disk into memory, in its order; random reads would take far longer."""
    if hasattr(os, "posix_fadvise"):
        for start in range(0, os.fstat(file.fileno()).st_size, _AHEAD_BYTES):
            os.posix_fadvise(file.fileno(), start, _AHEAD_BYTES, os.POSIX_FADV_WILLNEED)


def _describe(spec: StoreSpec, capacity: int) -> Manifest:
    return {
        "format": _FORMAT,
        "key": spec.key,
        "shape": [*spec.shape],
        "dtype": spec.dtype.str,
        "encoding": spec.encoding,
        "num_frames": spec.num_frames,
        "capacity": capacity,
        "boot_id": boot_id(),
        "description": dict(spec.description),
    }


def _is_sound(folder: Path, spec: StoreSpec, manifest: Manifest) -> bool:
    try:
        wanted = _describe(spec, manifest["capacity"])
        may_differ = {"boot_id", "description"}
        is_same = all(manifest[name] == wanted[name] for name in wanted.keys() - may_differ)
        sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
        least = _file_sizes(spec, manifest["capacity"])
        return is_same and all(sizes[name] >= least[name] for name in least)
    except (OSError, KeyError, TypeError):
        return False


def _file_sizes(spec: StoreSpec, capacity: int) -> dict[str, int]:
    sizes = {STATES: spec.num_frames, USERS: 0}
    if spec.encoding == "jpeg":
        return sizes | {FRAMES: 0, INDEX: spec.num_frames * INDEX_ENTRY.size}
    return sizes | {FRAMES: capacity * spec.frame_bytes}


def _forget_written(folder: Path) -> None:
    states = np.fromfile(folder / STATES, np.uint8)
    states[states == WRITTEN] = ABSENT
    with FileIO(folder / STATES, "r+") as file:
        write_all(file, states.tobytes(), 0)
    fsync_path(folder / STATES)
