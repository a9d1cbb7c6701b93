"""Frames as plain pixels, each at its place in one sparse file that is mapped into memory."""

import mmap
import os
import resource
from io import FileIO
from pathlib import Path

import numpy as np

from manyhands.data.cache.locations import mapped_bytes
from manyhands.data.cache.store_files import FRAMES, StoreSpec, read_ahead, write_all

# Pages that a process has touched count as its own memory until it releases them.
_MAX_MAPPED_BYTES = 32 * 1024**2
_USAGE = getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)


class RawFrames:
    """The first frames of a camera, as many as fit."""

    def __init__(self, folder: Path, spec: StoreSpec, max_bytes: int) -> None:
        self._file = FileIO(folder / FRAMES, "r+")
        self._frame_bytes = spec.frame_bytes
        self._capacity = spec.capacity(max_bytes)
        self.num_frames = os.fstat(self._file.fileno()).st_size // spec.frame_bytes
        """Frames that this process can read; another one may read more."""
        size = self.num_frames * self._frame_bytes
        self._map = mmap.mmap(self._file.fileno(), size, prot=mmap.PROT_READ) if size else None
        pixels = np.frombuffer(self._map or b"", spec.dtype)
        self._pixels = pixels.reshape(self.num_frames, *spec.shape)
        self._mapped_before = mapped_bytes()
        self._is_on_disk = True

    def read(self, frames: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Copy present frames into `out`; return which of them are valid: all."""
        num_blocks = resource.getrusage(_USAGE).ru_inblock
        if self._is_on_disk:
            self._fetch(frames)
        np.take(self._pixels, frames, axis=0, out=out, mode="clip")
        # Whether the system still had to ask the disk, and so will have to for the next ones.
        self._is_on_disk = resource.getrusage(_USAGE).ru_inblock != num_blocks
        self._let_go()
        return np.ones(len(frames), dtype=np.bool_)

    def write(self, frame: int, encoded: bytes | memoryview) -> bool:
        """Write a frame if it fits; return whether it did."""
        assert len(encoded) == self._frame_bytes
        if frame >= self._capacity:
            return False
        write_all(self._file, encoded, frame * self._frame_bytes)
        return True

    def read_ahead(self) -> None:
        """Bring all frames into memory."""
        read_ahead(self._file)

    def flush(self) -> None:
        """Bring all frames onto the disk."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _fetch(self, frames: np.ndarray) -> None:
        """Let the disk read all frames at once; page faults would ask for one piece at a time."""
        if self._map is None:
            return
        for start in (frames * self._frame_bytes).tolist():
            page = start - start % mmap.PAGESIZE
            self._map.madvise(mmap.MADV_WILLNEED, page, start + self._frame_bytes - page)

    def _let_go(self) -> None:
        if self._map is None:
            return
        # Asked of the system: what a touch maps around itself, from pages to megabytes, varies.
        mapped = mapped_bytes()
        # A forked process starts with less than its parent had.
        self._mapped_before = min(self._mapped_before, mapped)
        if mapped - self._mapped_before > _MAX_MAPPED_BYTES:
            self._map.madvise(mmap.MADV_DONTNEED)
            self._mapped_before = mapped_bytes()
