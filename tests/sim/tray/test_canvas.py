"""Painting shapes by their distance."""

import math

import numpy as np
import pytest

from manyhands.sim.tray.drawing import Canvas, RoundedBox, disk

WHITE = (1.0, 1.0, 1.0)


def blank(size: int, num_worlds: int = 1) -> Canvas:
    return Canvas(np.zeros((size, size, 3), dtype=np.float32), num_worlds)


def painted_area(canvas: Canvas) -> np.ndarray:
    """Covered area of each picture in table units."""
    size = canvas.pixels.shape[1]
    return canvas.pixels[..., 0].sum(axis=(1, 2)) * (2 / size) ** 2


@pytest.mark.parametrize("size", [24, 64, 200])
def test_a_disk_covers_its_area_at_any_size(size):
    canvas = blank(size)
    canvas.paint(disk(np.array([[0.13, -0.21]]), 0.4), WHITE)
    assert painted_area(canvas)[0] == pytest.approx(math.pi * 0.4**2, rel=0.01)


def test_a_turned_box_covers_its_area():
    canvas = blank(128)
    axis = np.array([[0.6, 0.8]])
    canvas.paint(RoundedBox(np.zeros((1, 2)), 0.5, 0.2, 0.0, axis), WHITE)
    assert painted_area(canvas)[0] == pytest.approx(4 * 0.5 * 0.2, rel=0.01)


def test_x_goes_right_and_y_goes_up():
    canvas = blank(10)
    canvas.paint(disk(np.array([[0.7, 0.9]]), 0.1), WHITE)
    row, column = np.unravel_index(canvas.pixels[0, :, :, 0].argmax(), (10, 10))
    assert (row, column) == (0, 8)


def test_each_world_gets_its_own_shape_and_strength():
    canvas = blank(64, num_worlds=2)
    shape = disk(np.array([[-0.5, 0.0], [0.4, 0.3]]), np.array([0.2, 0.3]))
    canvas.paint(shape, WHITE, opacity=np.array([1.0, 0.5]))
    areas = [math.pi * 0.2**2, 0.5 * math.pi * 0.3**2]
    np.testing.assert_allclose(painted_area(canvas), areas, rtol=0.02)


def test_shapes_outside_the_picture_leave_it_untouched():
    canvas = blank(32, num_worlds=2)
    canvas.paint(disk(np.array([[3.0, 0.0], [0.0, -2.5]]), 0.5), WHITE, blur=0.2)
    assert not canvas.pixels.any()


def test_a_blurred_edge_is_half_covered_on_the_outline():
    canvas = blank(256)
    canvas.paint(disk(np.zeros((1, 2)), 0.5), WHITE, blur=0.3)
    row = canvas.pixels[0, 128, :, 0]
    assert row[192] == pytest.approx(0.5, abs=0.05)
    assert (np.diff(row[128:]) <= 1e-6).all()
