"""Pictures to and from bytes."""

import io

import numpy as np
import pytest

from manyhands.data.pictures.images import decode_image, encode_png


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_png_brings_back_every_pixel(channels):
    pixels = np.random.default_rng(0).integers(0, 256, (17, 31, channels), dtype=np.uint8)
    assert np.array_equal(decode_image(encode_png(pixels), channels), pixels)


@pytest.mark.parametrize("subsampling", [0, 2])
def test_jpeg_colors_are_within_three_levels_of_libjpegs(picture, subsampling):
    pillow = pytest.importorskip("PIL.Image")
    pixels, file = picture(64, 96, 1), io.BytesIO()
    pillow.fromarray(pixels).save(file, "JPEG", quality=95, subsampling=subsampling)
    decoded = decode_image(file.getvalue(), 3)
    reference = np.asarray(pillow.open(file))
    assert np.abs(decoded.astype(int) - reference.astype(int)).max() <= 3


def test_a_picture_is_brought_to_the_channels_asked_for(picture):
    gray = decode_image(encode_png(picture(8, 8, 0)), 1)
    assert gray.shape == (8, 8, 1)


def damaged_pngs() -> dict[str, bytes]:
    whole = encode_png(np.full((16, 16, 3), 7, dtype=np.uint8))
    return {"cut": whole[:40], "empty": b"", "text": b"not a picture", "header": whole[:8]}


@pytest.mark.parametrize("damage", damaged_pngs())
def test_bytes_that_hold_no_picture_are_refused(damage):
    with pytest.raises(ValueError, match=r"PNG|nvalid|end before"):
        decode_image(damaged_pngs()[damage], 3)


def test_channels_that_no_format_has_are_refused():
    with pytest.raises(ValueError, match="2 channels"):
        decode_image(encode_png(np.zeros((4, 4, 3), dtype=np.uint8)), 2)
