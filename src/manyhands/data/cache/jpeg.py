"""Images as JPEG: small, a little changed, and the same on every processor."""

from fractions import Fraction

import av
import numpy as np
from av.video.reformatter import VideoReformatter

# Full color resolution, and the finest steps FFmpeg has: what others call quality 95.
_PIXEL_FORMAT = "yuvj444p"
_OPTIONS = {"qmin": "1", "qmax": "1", "flags": "+bitexact"}
# swscale's BILINEAR | FULL_CHR_H_INT | ACCURATE_RND | BITEXACT.
_SCALER_FLAGS = 0x2 | 0x2000 | 0x40000 | 0x80000
# PyAV takes the number of threads since release 17.
_SCALER_THREADS = {"threads": 1} if int(av.__version__.split(".")[0]) >= 17 else {}
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
        **_SCALER_THREADS,
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
            frame, format="rgb24", interpolation=_SCALER_FLAGS, **_SCALER_THREADS
        )
        pixels: np.ndarray = scaled.to_ndarray()
        return pixels.transpose(2, 0, 1)
