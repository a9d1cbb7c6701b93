"""Columns are recognized by type and shape."""

import numpy as np
import pytest

from manyhands.data.importing.source import Column, as_text, described, listed, natural_order


@pytest.mark.parametrize(
    ("dtype", "shape", "image_shape"),
    [
        ("uint8", (16, 24, 3), (16, 24, 3)),
        ("uint8", (3, 16, 24), (16, 24, 3)),
        ("float32", (16, 24, 1), (16, 24, 1)),
        ("uint8", (16, 24), None),
        ("float32", (4, 4, 3), None),
        ("uint16", (16, 24, 1), None),
        ("int64", (16, 24, 3), None),
    ],
)
def test_images_have_pixels_and_channels(dtype, shape, image_shape):
    column = Column(dtype, shape)
    assert column.is_image == (image_shape is not None)
    if image_shape is not None:
        assert column.image_shape == image_shape


def test_the_first_value_tells_the_scale_of_pixels():
    bright, dim = np.full((16, 24, 3), 200.0), np.full((16, 24, 3), 0.5)
    assert described(np.stack([bright]), bright).pixel_scale == 1
    assert described(np.stack([dim]), dim).pixel_scale == 255


def test_columns_are_listed_with_their_sizes():
    columns = {"a": Column("float32", (2, 3)), "b": Column("string", ()), "c": Column("int8", ())}
    assert listed(columns) == "a (2x3 float32), b (text), c (scalar int8)"


def test_numbers_in_names_count():
    assert sorted(["e_10", "e_2", "d"], key=natural_order) == ["d", "e_2", "e_10"]


@pytest.mark.parametrize(
    "value", [b"text", "text", np.array([b"text"]), np.array(["text"], object)]
)
def test_texts_in_any_form_are_texts(value):
    assert as_text(value) == "text"
