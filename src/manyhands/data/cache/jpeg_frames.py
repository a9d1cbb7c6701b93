"""Frames as JPEG, one behind the other in the order they came, with an index beside them."""

import os
from io import FileIO
from pathlib import Path
from zlib import crc32

import numpy as np

from manyhands.data.cache.folder import FRAMES, INDEX, INDEX_ENTRY, read_ahead, write_whole
from manyhands.data.cache.jpeg import JpegDecoder
from manyhands.data.cache.spec import StoreSpec
from manyhands.data.locks import locked

_APPENDING = "appending"


class JpegFrames:
    """The frames that were written before the store was full."""

    def __init__(self, folder: Path, spec: StoreSpec, max_bytes: int) -> None:
        self.num_frames = spec.num_frames
        self._folder = folder
        self._max_bytes = max_bytes
        self._file = FileIO(folder / FRAMES, "r+")
        self._index = FileIO(folder / INDEX, "r+")

    def read(self, frames: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Decode present frames into `out`; return which of them are valid."""
        decoder = JpegDecoder()
        is_sound = np.zeros(len(frames), dtype=np.bool_)
        for place, frame in enumerate(frames.tolist()):
            encoded = self._encoded(frame)
            if encoded is not None:
                out[place] = decoder.decode(encoded)
                is_sound[place] = True
        return is_sound

    def write(self, frame: int, encoded: bytes | memoryview) -> bool:
        """Append a frame if it fits; return whether it did."""
        # A lock of the file itself would not separate processes that were forked with it open.
        with locked(self._folder / _APPENDING):
            end = os.fstat(self._file.fileno()).st_size
            if end + len(encoded) > self._max_bytes:
                return False
            write_whole(self._file, encoded, end)
        entry = INDEX_ENTRY.pack(end, len(encoded), crc32(encoded))
        write_whole(self._index, entry, frame * INDEX_ENTRY.size)
        return True

    def read_ahead(self) -> None:
        """Bring all frames into memory."""
        read_ahead(self._file)

    def flush(self) -> None:
        """Bring all frames onto the disk."""
        os.fsync(self._file.fileno())
        os.fsync(self._index.fileno())

    def close(self) -> None:
        """Close the files."""
        self._file.close()
        self._index.close()

    def _encoded(self, frame: int) -> bytes | None:
        entry = os.pread(self._index.fileno(), INDEX_ENTRY.size, frame * INDEX_ENTRY.size)
        offset, length, checksum = INDEX_ENTRY.unpack(entry)
        encoded = os.pread(self._file.fileno(), length, offset)
        return encoded if crc32(encoded) == checksum and encoded else None
