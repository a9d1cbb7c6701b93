"""Single images as the bytes of a PNG, JPEG or TIFF file, to and from arrays."""

import struct
from fractions import Fraction

import av
import numpy as np
from av.video.reformatter import VideoReformatter

_WIDTH, _HEIGHT, _BITS, _COMPRESSION = 256, 257, 258, 259
_STRIP_OFFSETS, _STRIP_SIZES, _SAMPLE_FORMAT = 273, 279, 339
_IEEE_FLOAT = 3
_UNCOMPRESSED = 1
_INTEGERS = {1: "B", 3: "H", 4: "I"}  # Struct letters of TIFF's integer types


def is_float_tiff(encoded: bytes) -> bool:
    """Whether bytes are a TIFF file whose samples are floats."""
    if encoded[:4] not in (b"II*\0", b"MM\0*"):
        return False
    return _tags(encoded).get(_SAMPLE_FORMAT) == [_IEEE_FLOAT]


def read_float_tiff(encoded: bytes) -> np.ndarray:
    """The values (height, width) of an uncompressed file; raises ValueError if there are none."""
    tags = _tags(encoded)
    if tags.get(_BITS) != [32] or tags.get(_COMPRESSION, [_UNCOMPRESSED]) != [_UNCOMPRESSED]:
        raise ValueError("a float TIFF must be 32-bit and uncompressed")
    try:
        (width,), (height,) = tags[_WIDTH], tags[_HEIGHT]
        strips = zip(tags[_STRIP_OFFSETS], tags[_STRIP_SIZES], strict=True)
        pixels = b"".join(encoded[start : start + size] for start, size in strips)
        values = np.frombuffer(pixels, _byte_order(encoded) + "f4").reshape(height, width)
    except (KeyError, ValueError) as error:
        raise ValueError(f"the TIFF file is damaged: {error}") from None
    return values.astype(np.float32)


def _byte_order(encoded: bytes) -> str:
    return "<" if encoded.startswith(b"II") else ">"


def _tags(encoded: bytes) -> dict[int, list[int]]:
    """The integer entries of the first directory."""
    order = _byte_order(encoded)
    try:
        (directory,) = struct.unpack_from(order + "I", encoded, 4)
        (num_entries,) = struct.unpack_from(order + "H", encoded, directory)
        places = range(directory + 2, directory + 2 + 12 * num_entries, 12)
        return dict(_tag(encoded, order, place) for place in places)
    except struct.error as error:
        raise ValueError(f"the TIFF file is damaged: {error}") from None


def _tag(encoded: bytes, order: str, place: int) -> tuple[int, list[int]]:
    tag, kind, count = struct.unpack_from(order + "HHI", encoded, place)
    if kind not in _INTEGERS or count > len(encoded):
        return tag, []
    layout = f"{order}{count}{_INTEGERS[kind]}"
    # Values of up to four bytes stand in the entry itself, others where it points to.
    start = place + 8
    if struct.calcsize(layout) > 4:
        (start,) = struct.unpack_from(order + "I", encoded, start)
    return tag, list(struct.unpack_from(layout, encoded, start))


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
    """The image (height, width, channels) in a file's bytes; raises ValueError if there is none."""
    # `pixels` is a pixel format of FFmpeg, None for the stored one. A strict decoder compares
    # checksums and hides no damage.
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


def encode_png(pixels: np.ndarray, options: dict[str, str] | None = None) -> bytes:
    """A complete PNG file for an image, encoded with options of FFmpeg."""
    height, width, channels = pixels.shape
    pixel_format = _PIXEL_FORMATS[channels]
    encoder = av.CodecContext.create("png", "w")
    encoder.width, encoder.height, encoder.pix_fmt = width, height, pixel_format
    encoder.time_base, encoder.options = Fraction(1), options or {}
    plane = pixels[..., 0] if channels == 1 else pixels
    frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(plane), format=pixel_format)
    packets = [*encoder.encode(frame), *encoder.encode(None)]
    return b"".join(bytes(packet) for packet in packets)
