"""Single images as the bytes of a PNG, JPEG or TIFF file, to and from arrays."""

from fractions import Fraction

import av
import numpy as np
from av.video.reformatter import VideoReformatter

from manyhands.data.pictures.tiff import is_float_tiff, read_float_tiff

_SIGNATURES = {
    b"\x89PNG": "png",
    b"\xff\xd8\xff": "mjpeg",
    b"II*\0": "tiff",
    b"MM\0*": "tiff",
}
_PIXEL_FORMATS = {1: "gray", 3: "rgb24", 4: "rgba"}
# swscale's BILINEAR | FULL_CHR_H_INT | ACCURATE_RND: JPEG colors as libjpeg computes them, within
# two levels; and AREA instead of BILINEAR where the size changes.
_COLOR_FLAGS = 0x2 | 0x2000 | 0x40000
_RESIZE_FLAGS = 0x20 | 0x2000 | 0x40000
_STRICT = {"err_detect": "crccheck+bitstream+buffer+explode"}


def decode_image(
    encoded: bytes,
    pixels: str | None = "rgb24",
    size: tuple[int, int] | None = None,
    is_strict: bool = False,
) -> np.ndarray:
    """The image (height, width, channels) in a file's bytes; raises ValueError if there is none.

    `pixels` is a pixel format of FFmpeg, None for the stored one. A strict decoder
    compares checksums and hides no damage.
    """
    if is_float_tiff(encoded):
        return read_float_tiff(encoded)
    frame = _decoded(encoded, _STRICT if is_strict else {})
    height, width = size or (frame.height, frame.width)
    flags = _COLOR_FLAGS if size is None else _RESIZE_FLAGS
    scaled = VideoReformatter().reformat(
        frame, width, height, pixels or frame.format.name, interpolation=flags
    )
    array: np.ndarray = scaled.to_ndarray()
    return array


def _decoded(encoded: bytes, options: dict[str, str]) -> av.VideoFrame:
    codec = next((name for start, name in _SIGNATURES.items() if encoded.startswith(start)), None)
    if codec is None:
        raise ValueError(f"not PNG, JPEG or TIFF: the bytes start with {encoded[:4]!r}")
    decoder = av.CodecContext.create(codec, "r")
    assert isinstance(decoder, av.VideoCodecContext)
    decoder.thread_count = 1
    decoder.options = options
    try:
        frames = decoder.decode(av.Packet(encoded))
    except av.FFmpegError as error:
        raise ValueError(error.strerror) from None
    if not frames:
        raise ValueError("the image is truncated")
    return frames[0]


def encode_png(pixels: np.ndarray) -> bytes:
    """A complete PNG file for an image."""
    height, width, channels = pixels.shape
    pixel_format = _PIXEL_FORMATS[channels]
    encoder = av.CodecContext.create("png", "w")
    encoder.width, encoder.height, encoder.pix_fmt = width, height, pixel_format
    encoder.time_base = Fraction(1)
    plane = pixels[..., 0] if channels == 1 else pixels
    frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(plane), format=pixel_format)
    packets = [*encoder.encode(frame), *encoder.encode(None)]
    return b"".join(bytes(packet) for packet in packets)
