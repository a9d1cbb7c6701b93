"""A camera's frames on one machine: written once by any process, read by all.

A frame's pixels are written first and its state byte after them, each with one system call. So a
process that is killed leaves the frame absent, and two that write the same frame write the same.
"""

import os
import threading
import weakref
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import numpy as np

from manyhands.data.cache import store_files as store_folder
from manyhands.data.cache.contents import BLOCK_BYTES, LOCK, release_unused, remove_unused
from manyhands.data.cache.jpeg_frames import JpegDecoder, JpegFrames, encode_jpeg
from manyhands.data.cache.locations import stores_folder
from manyhands.data.cache.raw_frames import RawFrames
from manyhands.data.cache.store_files import ABSENT, DURABLE, WRITTEN, FrameStates, StoreSpec
from manyhands.data.locks import hold_shared, locked


# A pickled store reopens the files. A forked one uses its parent's: they have no position that the
# two could move, and no lock that both would hold alone.
class FrameStore:
    """The cached frames of a camera."""

    def __init__(
        self, home: Path, spec: StoreSpec, max_bytes: int, is_temporary: bool = False
    ) -> None:
        self.spec = spec
        self.folder = stores_folder(home) / spec.key
        self._max_bytes = max_bytes
        self._is_temporary = is_temporary
        if is_temporary:
            home.mkdir(mode=0o700, parents=True, exist_ok=True)
            release_unused(home)
        self._opened: _OpenedStore | None = None
        self._files()

    @property
    def capacity(self) -> int:
        """Capacity in frames; they are the first ones."""
        return self.spec.capacity(self._max_bytes)

    def are_present(self, frames: np.ndarray) -> np.ndarray:
        """Whether each frame can be read from the store."""
        return self._files().are_present(frames)

    def gather(self, frames: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Copy present frames to their rows of `out`; return which were present."""
        files = self._files()
        present = files.are_present(frames)
        if present.all():
            return files.read(frames, out)
        rows = np.flatnonzero(present)
        found = np.empty((len(rows), *self.spec.shape), self.spec.dtype)
        present[rows] = files.read(frames[rows], found)
        out[rows] = found
        return present

    def encode(self, pixels: np.ndarray) -> bytes | memoryview:
        """A frame as the store encodes it."""
        assert pixels.shape == self.spec.shape and pixels.dtype == self.spec.dtype
        if self.spec.encoding == "jpeg":
            return encode_jpeg(pixels)
        return np.ascontiguousarray(pixels).data.cast("B")

    def decode(self, encoded: bytes | memoryview) -> np.ndarray:
        """A frame as it will be read: the same with and without the cache."""
        if self.spec.encoding == "jpeg":
            return JpegDecoder().decode(bytes(encoded))
        return np.frombuffer(encoded, self.spec.dtype).reshape(self.spec.shape)

    def write(self, frame: int, encoded: bytes | memoryview) -> None:
        """Write a frame unless it is there or does not fit; a full disk raises OSError."""
        files = self._files()
        if not files.states.is_present(frame) and files.bytes.write(frame, encoded):
            files.states.mark(frame, WRITTEN)

    @property
    def disk_bytes(self) -> int:
        """Size of its frames."""
        return (self.folder / store_folder.FRAMES).stat().st_blocks * BLOCK_BYTES

    def read_ahead(self) -> None:
        """Load all frames into memory, so that later reads need no disk."""
        self._files().bytes.read_ahead()

    def make_durable(self) -> None:
        """Bring what was written onto the disk, so that it outlives a crash of the machine."""
        files = self._files()
        written = files.states.written()
        try:
            files.bytes.flush()
        except OSError:
            # The system drops what it could not write, and would read something else later.
            files.states.mark_all(written, ABSENT)
            raise
        files.states.mark_all(written, DURABLE)
        files.states.flush()

    def close(self) -> None:
        """Give the files back; the last one to leave a temporary store removes it."""
        if self._opened is not None:
            self._leave()
            self._opened = None

    def _files(self) -> "_OpenedStore":
        if self._opened is not None:
            return self._opened
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        with locked(self.folder.parent / LOCK):
            store_folder.prepare_folder(self.folder, self.spec, self.spec.capacity(self._max_bytes))
            self._opened = _OpenedStore(self.folder, self.spec, self._max_bytes)
        self._leave = weakref.finalize(self, _leave, self._opened, self.folder, self._is_temporary)
        return self._opened

    def __getstate__(self) -> dict[str, Any]:
        state = vars(self) | {"_opened": None}
        return {name: value for name, value in state.items() if name != "_leave"}


class _OpenedStore:
    def __init__(self, folder: Path, spec: StoreSpec, max_bytes: int) -> None:
        self._users = hold_shared(folder / store_folder.USERS)
        os.utime(self._users.fileno())
        self.states = FrameStates(folder / store_folder.STATES)
        kind: type[JpegFrames | RawFrames] = JpegFrames if spec.encoding == "jpeg" else RawFrames
        self.bytes = kind(folder, spec, max_bytes)

    def are_present(self, frames: np.ndarray) -> np.ndarray:
        return self.states.are_present(frames) & (frames < self.bytes.num_frames)

    def read(self, frames: np.ndarray, out: np.ndarray) -> np.ndarray:
        is_sound = self.bytes.read(frames, out)
        if not is_sound.all():
            self.states.mark_all(np.unique(frames[~is_sound]), ABSENT)
        return is_sound

    def close(self) -> None:
        for file in (self.bytes, self.states, self._users):
            file.close()


def _leave(opened: _OpenedStore, folder: Path, is_temporary: bool) -> None:
    opened.close()
    if is_temporary:
        remove_unused(folder)


class CacheStores(ABC):
    """Stores of frames or of vision tokens."""

    @property
    @abstractmethod
    def stores(self) -> list[FrameStore]:
        """Those that were opened, if they are on disk."""

    def make_durable(self) -> None:
        """Make cached frames durable against a crash of the machine."""
        for store in self.stores:
            store.make_durable()

    def read_ahead(self, max_bytes: int) -> None:
        """Load the stores into memory if all of them fit."""
        if sum(store.disk_bytes for store in self.stores) <= max_bytes:
            for store in self.stores:
                store.read_ahead()

    def read_ahead_in_background(self, max_bytes: int) -> None:
        """Load the stores into memory in the background."""
        threading.Thread(target=self.read_ahead, args=(max_bytes,), daemon=True).start()
