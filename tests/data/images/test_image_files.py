"""Pictures to and from bytes."""

import io

import numpy as np
import pytest

from manyhands.data.images.image_files import decode_image, encode_png


@pytest.mark.parametrize(("channels", "pixels"), [(1, "gray"), (3, "rgb24"), (4, "rgba")])
def test_png_brings_back_every_pixel(channels, pixels):
    picture = np.random.default_rng(0).integers(0, 256, (17, 31, channels), dtype=np.uint8)
    assert np.array_equal(decode_image(encode_png(picture), pixels), picture.squeeze())


@pytest.mark.parametrize("subsampling", [0, 2])
def test_jpeg_colors_are_within_three_levels_of_libjpegs(picture, subsampling):
    pillow = pytest.importorskip("PIL.Image")
    pixels, file = picture(64, 96, 1), io.BytesIO()
    pillow.fromarray(pixels).save(file, "JPEG", quality=95, subsampling=subsampling)
    decoded = decode_image(file.getvalue())
    reference = np.asarray(pillow.open(file))
    assert np.abs(decoded.astype(int) - reference.astype(int)).max() <= 3


def test_a_picture_is_brought_to_the_channels_asked_for(picture):
    assert decode_image(encode_png(picture(8, 8, 0)), "gray").shape == (8, 8)


def test_a_picture_is_brought_to_the_size_asked_for(picture):
    whole = picture(32, 48, 0)
    small = decode_image(encode_png(whole), size=(16, 24))
    means = whole.reshape(16, 2, 24, 2, 3).mean(axis=(1, 3))
    assert small.shape == (16, 24, 3)
    assert np.abs(small - means).mean() < 2


@pytest.mark.parametrize("mode", ["I;16", "F"])
def test_a_tiff_comes_with_the_numbers_it_holds(mode):
    pillow = pytest.importorskip("PIL.Image")
    dtype = np.uint16 if mode == "I;16" else np.float32
    distances, file = np.linspace(500, 4499, 48).reshape(6, 8).astype(dtype), io.BytesIO()
    pillow.fromarray(distances).save(file, "TIFF")
    assert np.array_equal(decode_image(file.getvalue(), None), distances)


def damaged_pngs() -> dict[str, bytes]:
    whole = encode_png(np.full((16, 16, 3), 7, dtype=np.uint8))
    return {"cut": whole[:40], "empty": b"", "text": b"not a picture", "header": whole[:8]}


@pytest.mark.parametrize("damage", damaged_pngs())
def test_bytes_that_hold_no_picture_are_refused(damage):
    with pytest.raises(ValueError, match=r"PNG|nvalid|end before"):
        decode_image(damaged_pngs()[damage])
