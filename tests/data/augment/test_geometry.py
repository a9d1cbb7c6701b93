"""Turning, moving, scaling and shearing."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from manyhands.data.augment.geometry import RandomAffine, inverse_map

ANGLE = st.floats(-1.2, 1.2)


def affine(**kwargs: object) -> RandomAffine:
    still = {
        "degrees": (0.0, 0.0),
        "translate": (0.0, 0.0),
        "scale": (1.0, 1.0),
        "shear": (0.0,) * 4,
        "interpolation": "nearest",
        "fill": 0.0,
    }
    return RandomAffine(**(still | kwargs))


def moved(rows: list[list[float]], middle: float = 0.5, **kwargs: object) -> list[list[float]]:
    """A picture of one channel's rows after an affine transform."""
    picture = torch.tensor(rows).expand(1, 1, 3, -1, -1)
    result = affine(**kwargs)(picture, torch.full((1, 6), middle))
    assert torch.equal(result[0, 0, 0], result[0, 0, 2])
    return result[0, 0, 1].tolist()


@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
@pytest.mark.parametrize("fill", [0.0, 0.5])
def test_standing_still_changes_nothing(pictures, interpolation, fill):
    still = affine(interpolation=interpolation, fill=fill)
    seen = still(pictures, torch.rand(4, 6))
    torch.testing.assert_close(seen, pictures, atol=1e-5, rtol=0)


def test_moves_go_right_and_down_by_whole_pixels_and_uncover_the_fill():
    rows = [[0.1, 0.2, 0.3, 0.4], [0.5, 0.6, 0.7, 0.8]]
    right_down = pytest.approx(np.float32([[1, 1, 1, 1], [1, 0.1, 0.2, 0.3]]))
    left_up = pytest.approx(np.float32([[0.6, 0.7, 0.8, 1], [1, 1, 1, 1]]))
    moves = {"translate": (0.3, 0.6), "fill": 1.0}
    assert np.array(moved(rows, middle=1.0, **moves)) == right_down
    assert np.array(moved(rows, middle=0.0, **moves)) == left_up


@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
def test_positive_angles_turn_clockwise(interpolation):
    turned = moved([[0.1, 0.2], [0.3, 0.4]], degrees=(90.0, 90.0), interpolation=interpolation)
    assert np.array(turned) == pytest.approx(np.float32([[0.3, 0.1], [0.4, 0.2]]), abs=1e-5)


def test_scale_enlarges_about_the_center():
    rows = [[0.1, 0.2, 0.3, 0.4]] * 2
    doubled = np.float32([[0.2, 0.2, 0.3, 0.3]] * 2)
    assert np.array(moved(rows, scale=(2.0, 2.0))) == pytest.approx(doubled)


def test_bilinear_fill_fades_in_at_the_border():
    half = moved([[1.0, 1.0]], scale=(0.5, 0.5), interpolation="bilinear", fill=0.2)
    # The two pixels look half a pixel beyond the border: half picture, half fill, in both axes.
    assert half == [pytest.approx([0.6, 0.6])]


@given(ANGLE, st.floats(0.3, 3), ANGLE, ANGLE)
def test_the_map_is_the_inverse_of_turn_shear_and_scale(angle, scale, shear_x, shear_y):
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    along_x = np.array([[1, -np.tan(shear_x)], [0, 1]])
    along_y = np.array([[1, 0], [-np.tan(shear_y), 1]])
    expected = np.linalg.inv(scale * turn @ along_y @ along_x)
    drawn = (torch.tensor([each], dtype=torch.float64) for each in (angle, scale, shear_x, shear_y))
    seen = np.array([[each.item() for each in row] for row in inverse_map(*drawn)])
    np.testing.assert_allclose(seen, expected, atol=1e-9)


def test_samples_move_each_by_its_own_draw(pictures):
    both = affine(degrees=(-30.0, 30.0), translate=(0.2, 0.2), shear=(-5.0, 5.0, -5.0, 5.0))
    uniforms = torch.rand(4, 6, generator=torch.Generator().manual_seed(0))
    alone = [both(pictures[each : each + 1], uniforms[each : each + 1]) for each in range(4)]
    torch.testing.assert_close(both(pictures, uniforms), torch.cat(alone))
