"""TIFF files of 32-bit floats, in which depth is stored and which FFmpeg does not decode."""

import struct

import numpy as np

_WIDTH, _HEIGHT, _BITS, _COMPRESSION = 256, 257, 258, 259
_STRIP_OFFSETS, _STRIP_SIZES, _SAMPLE_FORMAT = 273, 279, 339
_IEEE_FLOAT = 3
_UNCOMPRESSED = 1
_INTEGERS = {1: "B", 3: "H", 4: "I"}
"""Struct letters of TIFF's integer types."""


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
