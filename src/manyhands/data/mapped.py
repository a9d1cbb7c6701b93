"""Arrays in files that all processes of a machine share, read without making any process grow."""

import mmap
import os
from pathlib import Path
from typing import Any

import numpy as np

# Pages a process has touched count as its own until released; the page cache holds them.
_MAX_TOUCHED_BYTES = 64 * 1024**2


class MappedArray:
    """A read-only array at the beginning of a file; a pickled one is reopened."""

    def __init__(self, path: Path, shape: tuple[int, ...], dtype: np.dtype) -> None:
        self.path = path
        self.shape = shape
        self.dtype = dtype
        self._map: mmap.mmap | None = None
        self._values: np.ndarray | None = None
        self._touched_bytes = 0

    @property
    def values(self) -> np.ndarray:
        """The complete array, a view of the file."""
        if self._values is None:
            self._map, self._values = self._opened()
        return self._values

    def take(self, places: np.ndarray, out: np.ndarray) -> None:
        """Copy the entries at `places` of the first axis into `out`."""
        np.take(self.values, places, axis=0, out=out, mode="clip")
        self._touched_bytes += max(out.nbytes, places.size * mmap.PAGESIZE)
        if self._touched_bytes > _MAX_TOUCHED_BYTES:
            self.let_go()

    def let_go(self) -> None:
        """Stop counting what was read as this process's memory."""
        self._touched_bytes = 0
        if self._map is not None and hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)

    def _opened(self) -> tuple[mmap.mmap | None, np.ndarray]:
        if 0 in self.shape:
            return None, np.empty(self.shape, self.dtype)
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            size = int(np.prod(self.shape)) * self.dtype.itemsize
            mapping = mmap.mmap(descriptor, size, prot=mmap.PROT_READ)
        finally:
            os.close(descriptor)
        return mapping, np.frombuffer(mapping, self.dtype).reshape(self.shape)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_map": None, "_values": None, "_touched_bytes": 0}
