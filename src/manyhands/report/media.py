"""Images and videos as data URIs, and the bytes that are left for them on a page."""

from base64 import b64encode
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from av.video.reformatter import VideoReformatter

NUM_STILLS = 8
MAX_HEIGHT = 144
MAX_DECODED = 5000  # Frames of a video that are looked through for stills
MAX_VIDEO_BYTES = 1_500_000
_JPEG = {"qmin": "3", "qmax": "3", "flags": "+bitexact"}
_JPEG_PIXELS = "yuvj420p"
_AREA = 0x20 | 0x40000 | 0x80000  # swscale's AREA | ACCURATE_RND | BITEXACT
_FULL_RANGE = 2


class Allowance:
    """Bytes that may still be used, taken by whoever asks first."""

    def __init__(self, num_bytes: int) -> None:
        self._left = num_bytes

    def takes(self, *texts: str) -> bool:
        """Take what texts need; False, and nothing, if they do not fit."""
        needed = sum(map(len, texts))
        if needed > self._left:
            return False
        self._left -= needed
        return True


def image_uri(pixels: np.ndarray) -> str:
    """A frame (height, width, 3) of uint8 as a JPEG, scaled down to `MAX_HEIGHT`."""
    return _uri("image/jpeg", _jpeg(av.VideoFrame.from_ndarray(np.ascontiguousarray(pixels))))


def video_uri(path: Path) -> str | None:
    """An MP4 file; None if it is none, or too large."""
    if not path.is_file() or path.stat().st_size > MAX_VIDEO_BYTES:
        return None
    content = path.read_bytes()
    return _uri("video/mp4", content) if content[4:8] == b"ftyp" else None


def still_uris(path: Path) -> list[str]:
    """Frames of a video spread evenly over it, both ends included; none if it is unreadable."""
    if not path.is_file():
        return []
    try:
        with closing(av.open(str(path), "r")) as file:
            num_frames = sum(packet.size > 0 for packet in file.demux(video=0))
        places = still_places(min(num_frames, MAX_DECODED))
        with closing(av.open(str(path), "r")) as file:
            decoded = zip(range(MAX_DECODED), file.decode(video=0), strict=False)
            return [_uri("image/jpeg", _jpeg(frame)) for place, frame in decoded if place in places]
    except (av.FFmpegError, OSError, ValueError, IndexError):
        return []


def still_places(num_frames: int, most: int = NUM_STILLS) -> list[int]:
    """Places of at most that many frames, spread evenly."""
    if num_frames == 0:
        return []
    places = np.linspace(0, num_frames - 1, min(num_frames, most)).round()
    return [int(place) for place in places]


def _jpeg(frame: av.VideoFrame) -> bytes:
    scale = min(1.0, MAX_HEIGHT / frame.height)
    width, height = (max(2, round(size * scale / 2) * 2) for size in (frame.width, frame.height))
    encoder = av.CodecContext.create("mjpeg", "w")
    assert isinstance(encoder, av.VideoCodecContext)
    encoder.width, encoder.height, encoder.pix_fmt = width, height, _JPEG_PIXELS
    encoder.time_base, encoder.thread_count, encoder.options = Fraction(1), 1, _JPEG
    scaled = VideoReformatter().reformat(
        frame, width, height, _JPEG_PIXELS, interpolation=_AREA, dst_color_range=_FULL_RANGE
    )
    packets = [*encoder.encode(scaled), *encoder.encode(None)]
    return b"".join(bytes(packet) for packet in packets)


def _uri(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{b64encode(content).decode()}"
