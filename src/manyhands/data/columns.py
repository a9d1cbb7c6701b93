"""Columns of a dataset: each returns its values for any frames, however they are stored."""

import math
import mmap
import os
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

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

    def flat(self) -> "MappedArray":
        """The same entries, each with a single axis."""
        num_entries, *shape = self.shape
        return MappedArray(self.path, (num_entries, math.prod(shape)), self.dtype)

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


class ArrayColumn(Protocol):
    """A feature whose values are arrays of one shape."""

    shape: tuple[int, ...]
    dtype: np.dtype
    drops_single_axis: bool  # Whether LeRobot drops the time axis of a window with one entry

    def read_into(self, frames: np.ndarray, out: np.ndarray) -> None:
        """Write the values at an array of frames, whose axes come first, into `out`."""


class NumberColumn:
    """Numbers and booleans in a file that all processes share."""

    drops_single_axis = False

    def __init__(self, values: MappedArray) -> None:
        self.shape = values.shape[1:]
        self.dtype = values.dtype
        self._values = values

    def read_into(self, frames: np.ndarray, out: np.ndarray) -> None:
        """Values stacked along the axes of `frames`."""
        self._values.take(frames, out)


class ObjectColumn:
    """Strings and lists of any content, in a file that all processes share."""

    def __init__(self, path: str, key: str) -> None:
        self._path = path
        self._key = key
        self._values: pa.ChunkedArray | None = None

    def read(self, frames: np.ndarray) -> list[object]:
        """One Python object per frame."""
        if self._values is None:
            with pa.ipc.open_file(pa.memory_map(self._path)) as file:
                self._values = file.read_all()[self._key]
        objects: list[object] = self._values.take(pa.array(frames)).to_pylist()
        return objects

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_values": None}


class TextColumn:
    """Strings that many frames share, stored once."""

    def __init__(self, texts: list[str], of_frame: MappedArray) -> None:
        self._texts = texts
        self._of_frame = of_frame

    def read(self, frames: np.ndarray) -> list[object]:
        """One string per frame."""
        numbers = np.empty(len(frames), self._of_frame.dtype)
        self._of_frame.take(frames, numbers)
        return [self._texts[number] for number in numbers]


Column = ArrayColumn | ObjectColumn | TextColumn
