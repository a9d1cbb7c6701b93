"""TIFF files of floats."""

import io
import struct

import numpy as np
import pytest

from manyhands.data.images.image_files import is_float_tiff, read_float_tiff


def float_tiff(values: np.ndarray, order: str = "<") -> bytes:
    """A file with one strip of floats."""
    height, width = values.shape
    pixels = values.astype(order + "f4").tobytes()
    entries = [
        (256, 4, width),
        (257, 4, height),
        (258, 3, 32),
        (259, 3, 1),
        (273, 4, 8),
        (279, 4, len(pixels)),
        (339, 3, 3),
    ]
    directory = struct.pack(order + "H", len(entries))
    for tag, kind, value in entries:
        padded = struct.pack(order + ("HH" if kind == 3 else "I"), *([value, 0][: 5 - kind]))
        directory += struct.pack(order + "HHI", tag, kind, 1) + padded
    start = b"II*\0" if order == "<" else b"MM\0*"
    return start + struct.pack(order + "I", 8 + len(pixels)) + pixels + directory + bytes(4)


@pytest.mark.parametrize("order", ["<", ">"])
def test_floats_of_both_byte_orders_are_read(order):
    values = np.random.default_rng(0).normal(size=(5, 7)).astype(np.float32)
    assert is_float_tiff(float_tiff(values, order))
    assert np.array_equal(read_float_tiff(float_tiff(values, order)), values)


def test_what_pillow_writes_is_read():
    pillow, file = pytest.importorskip("PIL.Image"), io.BytesIO()
    values = np.random.default_rng(0).normal(size=(40, 30)).astype(np.float32)
    pillow.fromarray(values).save(file, "TIFF")
    assert np.array_equal(read_float_tiff(file.getvalue()), values)


def test_other_files_are_left_to_others():
    pillow, file = pytest.importorskip("PIL.Image"), io.BytesIO()
    pillow.fromarray(np.zeros((4, 4), np.uint16)).save(file, "TIFF")
    assert not is_float_tiff(file.getvalue())
    assert not is_float_tiff(b"\x89PNG and more")


@pytest.mark.parametrize("length", [4, 9, 30, 60, 100, 150])
def test_a_file_cut_short_is_refused(length):
    whole = float_tiff(np.ones((4, 6), np.float32))
    with pytest.raises(ValueError, match="damaged"):
        is_float_tiff(whole[:length])
        read_float_tiff(whole[:length])
