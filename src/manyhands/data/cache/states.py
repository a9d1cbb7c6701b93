"""Which frames of a store are there: a file with one byte per frame."""

import mmap
import os
from io import FileIO
from pathlib import Path

import numpy as np

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
