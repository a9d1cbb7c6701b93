"""Pictures as JPEG."""

import numpy as np
import pytest

from manyhands.data.cache.jpeg_frames import JpegDecoder, encode_jpeg


def smooth_picture(height, width):
    rows, columns = np.mgrid[:height, :width] / 9
    waves = [np.sin(columns), np.cos(rows), np.sin(rows + columns)]
    return np.stack([127 + 100 * wave for wave in waves]).astype(np.uint8)


@pytest.mark.parametrize("size", [(96, 96), (1, 1), (7, 33), (48, 64)])
def test_a_picture_changes_little(size):
    picture = smooth_picture(*size)
    encoded = encode_jpeg(picture)
    assert encoded.startswith(b"\xff\xd8\xff")
    decoded = JpegDecoder().decode(encoded)
    assert decoded.shape == picture.shape and decoded.dtype == np.uint8
    assert np.abs(decoded.astype(int) - picture).mean() < 1.5


def test_colors_keep_their_place_at_full_resolution():
    picture = np.zeros((3, 16, 16), np.uint8)
    picture[0, :, ::2] = 250
    picture[2, :, 1::2] = 250
    decoded = JpegDecoder().decode(encode_jpeg(picture)).astype(int)
    assert np.abs(decoded - picture).mean() < 6


def test_the_bytes_do_not_depend_on_the_pictures_before():
    first, second = smooth_picture(32, 32), 255 - smooth_picture(32, 32)
    alone = encode_jpeg(second)
    encode_jpeg(first)
    assert encode_jpeg(second) == alone
    decoder = JpegDecoder()
    decoder.decode(encode_jpeg(first))
    assert np.array_equal(decoder.decode(alone), JpegDecoder().decode(alone))
