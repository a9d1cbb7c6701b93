"""What a store holds."""

import numpy as np
import pytest
from workbench import NumberedPictures, spec_of


def test_frames_are_measured_in_memory():
    assert spec_of(NumberedPictures((3, 96, 96))).frame_bytes == 27648
    assert spec_of(NumberedPictures((1, 10, 10), np.dtype(np.float32))).frame_bytes == 400


@pytest.mark.parametrize(
    ("max_bytes", "capacity"), [(0, 0), (191, 0), (192, 1), (10_000, 50), (1 << 60, 50)]
)
def test_as_many_frames_as_fit_are_kept(max_bytes, capacity):
    assert spec_of(NumberedPictures()).capacity(max_bytes) == capacity


def test_any_jpeg_may_be_kept_as_its_size_is_not_known():
    assert spec_of(NumberedPictures(), encoding="jpeg").capacity(10) == 50


@pytest.mark.parametrize("source", [((1, 8, 8), "u1"), ((3, 8, 8), "f4"), ((3, 8), "u1")])
def test_only_colors_can_be_jpegs(source):
    shape, dtype = source
    with pytest.raises(AssertionError):
        spec_of(NumberedPictures(shape, np.dtype(dtype)), encoding="jpeg")
