"""Frames as JPEG in one file, in the order they came, with an index."""

import os
from fractions import Fraction
from io import FileIO
from pathlib import Path
from zlib import crc32

import av
import numpy as np
from av.video.reformatter import VideoReformatter

from manyhands.data.cache.store_files import (
    FRAMES,
    INDEX,
    INDEX_ENTRY,
    StoreSpec,
    read_ahead,
    write_all,
)
from manyhands.data.images.video import SCALER_THREADS
from manyhands.data.locks import locked

# Full color resolution, and the finest steps FFmpeg has: what others call quality 95.
_PIXEL_FORMAT = "yuvj444p"
_OPTIONS = {"qmin": "1", "qmax": "1", "flags": "+bitexact"}
# swscale's BILINEAR | FULL_CHR_H_INT | ACCURATE_RND | BITEXACT.
_SCALER_FLAGS = 0x2 | 0x2000 | 0x40000 | 0x80000
_FULL_RANGE = 2


def encode_jpeg(pixels: np.ndarray) -> bytes:
    """A complete JPEG file for an image (3, height, width) of uint8."""
    # A new encoder for every image: a reused one would depend on earlier images.
    encoder = av.CodecContext.create("mjpeg", "w")
    assert isinstance(encoder, av.VideoCodecContext)
    _, encoder.height, encoder.width = pixels.shape
    encoder.pix_fmt, encoder.time_base = _PIXEL_FORMAT, Fraction(1)
    encoder.thread_count, encoder.options = 1, _OPTIONS
    picture = np.ascontiguousarray(pixels.transpose(1, 2, 0))
    frame = VideoReformatter().reformat(
        av.VideoFrame.from_ndarray(picture, format="rgb24"),
        format=_PIXEL_FORMAT,
        interpolation=_SCALER_FLAGS,
        dst_color_range=_FULL_RANGE,
        **SCALER_THREADS,
    )
    packets = [*encoder.encode(frame), *encoder.encode(None)]
    return b"".join(bytes(packet) for packet in packets)


class JpegDecoder:
    """Decodes one image after the other; for one thread."""

    def __init__(self) -> None:
        self._decoder = av.CodecContext.create("mjpeg", "r")
        assert isinstance(self._decoder, av.VideoCodecContext)
        self._decoder.thread_count = 1
        self._scaler = VideoReformatter()

    def decode(self, encoded: bytes) -> np.ndarray:
        """The image (3, height, width) that was encoded."""
        (frame,) = self._decoder.decode(av.Packet(encoded))
        scaled = self._scaler.reformat(
            frame, format="rgb24", interpolation=_SCALER_FLAGS, **SCALER_THREADS
        )
        pixels: np.ndarray = scaled.to_ndarray()
        return pixels.transpose(2, 0, 1)


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
            write_all(self._file, encoded, end)
        entry = INDEX_ENTRY.pack(end, len(encoded), crc32(encoded))
        write_all(self._index, entry, frame * INDEX_ENTRY.size)
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
