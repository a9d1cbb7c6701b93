"""How pictures are delivered."""

import numpy as np
import pytest

from manyhands.data.images.formats import checked, image_format
from manyhands.errors import DatasetError
from manyhands.lerobot_format.dataset.info import Feature

AXES = ["height", "width", "channels"]


def test_colors_come_as_bytes_with_channels_first():
    form = image_format(Feature("video", (4, 6, 3), AXES))
    pixels = np.arange(72, dtype=np.uint8).reshape(4, 6, 3)
    assert form.shape == (3, 4, 6) and form.dtype == np.uint8
    assert np.array_equal(form.delivered(pixels, is_video=True), pixels.transpose(2, 0, 1))


def test_a_size_replaces_the_recorded_one():
    assert image_format(Feature("video", (4, 6, 3), AXES), (2, 3)).shape == (3, 2, 3)


@pytest.mark.parametrize(
    ("recorded", "unit", "factor"),
    [("m", "mm", 1000), ("mm", "m", 0.001), ("mm", "mm", 1), (None, "m", 1)],
)
def test_stored_distances_are_converted_to_the_unit_asked_for(recorded, unit, factor):
    info = {"is_depth_map": True} | ({"depth_unit": recorded} if recorded else {})
    form = image_format(Feature("image", (2, 2, 1), AXES, info), depth_unit=unit)
    values = np.array([[1, 2], [3, 4]], np.uint16)
    delivered = form.delivered(values, is_video=False)
    assert delivered.dtype == np.float32 and delivered.shape == (1, 2, 2)
    assert np.allclose(delivered[0], values * factor, rtol=1e-6)


def test_a_picture_of_another_shape_is_refused():
    form = image_format(Feature("image", (4, 6, 3), AXES))
    with pytest.raises(DatasetError, match=r"file: an image is 3x2x2 .*declares 3x4x6"):
        checked(np.zeros((3, 2, 2), np.uint8), form, "file")


def test_channels_that_no_format_has_are_refused():
    with pytest.raises(ValueError, match="2 channels"):
        _ = image_format(Feature("image", (4, 6, 2), AXES)).stored_pixels
