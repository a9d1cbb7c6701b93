"""Frames of a rollout side by side, as one embedded image."""

from base64 import b64encode
from collections.abc import Sequence
from fractions import Fraction

import av
import numpy as np

MAX_FRAMES = 8
MAX_HEIGHT = 200
GAP = 6


def filmstrip_uri(frames: Sequence[np.ndarray]) -> str:
    """Frames (height, width, 3) uint8 spread evenly over the sequence, as a PNG data URI."""
    return f"data:image/png;base64,{b64encode(png(filmstrip(frames))).decode()}"


def filmstrip(frames: Sequence[np.ndarray]) -> np.ndarray:
    """At most `MAX_FRAMES` frames in a row, first and last included, with see-through gaps."""
    assert len(frames) > 0, "a filmstrip needs a frame"
    picked = np.linspace(0, len(frames) - 1, min(len(frames), MAX_FRAMES)).round().astype(int)
    shown = [_shrunk(frames[index]) for index in picked]
    height = max(frame.shape[0] for frame in shown)
    width = sum(frame.shape[1] for frame in shown) + GAP * (len(shown) - 1)
    strip = np.zeros((height, width, 4), dtype=np.uint8)
    left = 0
    for frame in shown:
        strip[: frame.shape[0], left : left + frame.shape[1], :3] = frame
        strip[: frame.shape[0], left : left + frame.shape[1], 3] = 255
        left += frame.shape[1] + GAP
    return strip


def png(picture: np.ndarray) -> bytes:
    """An image (height, width, 4) uint8 as the bytes of a PNG file."""
    codec = av.CodecContext.create("png", "w")
    codec.height, codec.width = picture.shape[:2]
    codec.pix_fmt = "rgba"
    codec.time_base = Fraction(1)
    codec.options = {"pred": "mixed"}
    frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="rgba")
    return b"".join(bytes(packet) for packet in [*codec.encode(frame), *codec.encode(None)])


def _shrunk(frame: np.ndarray) -> np.ndarray:
    """The frame, downsampled by the integer factor that brings it to `MAX_HEIGHT` or less."""
    assert frame.dtype == np.uint8 and frame.ndim == 3 and frame.shape[2] == 3, frame.shape
    factor = -(-frame.shape[0] // MAX_HEIGHT)
    height, width = frame.shape[0] // factor, max(1, frame.shape[1] // factor)
    blocks = frame[: height * factor, : width * factor].reshape(height, factor, width, -1, 3)
    return np.asarray(blocks.mean(axis=(1, 3)).round(), dtype=np.uint8)
