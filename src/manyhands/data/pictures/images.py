"""Single pictures as PNG or JPEG bytes, to and from arrays (height, width, channels) of uint8."""

from fractions import Fraction

import av
import numpy as np
from av.video.reformatter import VideoReformatter

_SIGNATURES = {b"\x89PNG": "png", b"\xff\xd8\xff": "mjpeg"}
_PIXEL_FORMATS = {1: "gray", 3: "rgb24", 4: "rgba"}
# swscale's BILINEAR | FULL_CHR_H_INT | ACCURATE_RND: JPEG colors as libjpeg computes them, within
# two levels.
_SCALER_FLAGS = 0x2 | 0x2000 | 0x40000


def decode_image(encoded: bytes, channels: int) -> np.ndarray:
    """The picture in PNG or JPEG bytes; a ValueError says why there is none."""
    codec = next((name for start, name in _SIGNATURES.items() if encoded.startswith(start)), None)
    if codec is None:
        raise ValueError(f"neither PNG nor JPEG: the bytes begin {encoded[:4]!r}")
    if channels not in _PIXEL_FORMATS:
        raise ValueError(f"a picture of {channels} channels cannot be decoded")
    decoder = av.CodecContext.create(codec, "r")
    assert isinstance(decoder, av.VideoCodecContext)
    decoder.thread_count = 1
    try:
        frames = decoder.decode(av.Packet(encoded))
    except av.FFmpegError as error:
        raise ValueError(error.strerror) from None
    if not frames:
        raise ValueError("the bytes end before the picture does")
    scaled = VideoReformatter().reformat(
        frames[0], format=_PIXEL_FORMATS[channels], interpolation=_SCALER_FLAGS
    )
    pixels: np.ndarray = scaled.to_ndarray()
    return pixels.reshape(*pixels.shape[:2], channels)


def encode_png(pixels: np.ndarray) -> bytes:
    """A complete PNG file for a picture."""
    height, width, channels = pixels.shape
    pixel_format = _PIXEL_FORMATS[channels]
    encoder = av.CodecContext.create("png", "w")
    encoder.width, encoder.height, encoder.pix_fmt = width, height, pixel_format
    encoder.time_base = Fraction(1)
    plane = pixels[..., 0] if channels == 1 else pixels
    frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(plane), format=pixel_format)
    packets = [*encoder.encode(frame), *encoder.encode(None)]
    return b"".join(bytes(packet) for packet in packets)
