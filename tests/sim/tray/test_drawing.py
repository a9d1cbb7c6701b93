"""Pictures of the table show what matters, at every size."""

import numpy as np
import pytest

from manyhands.sim.tray.drawing import BLOCK, GLAZE, Scene, draw_scene


def a_scene(**changes) -> Scene:
    parts = {
        "gripper": np.array([[0.0, -0.7]]),
        "opening": np.array([1.0]),
        "block": np.array([[0.5, 0.4]]),
        "tray": np.array([[-0.4, 0.3]]),
        "height": np.array([0.0]),
    }
    return Scene(**(parts | changes))


def color_at(picture: np.ndarray, x: float, y: float) -> np.ndarray:
    size = len(picture)
    return picture[int((1 - y) * size / 2), int((1 + x) * size / 2)] / 255


@pytest.mark.parametrize("size", [32, 96, 256])
def test_block_and_tray_are_seen_in_their_places(size):
    picture = draw_scene(a_scene(), size)[0]
    assert picture.shape == (size, size, 3)
    np.testing.assert_allclose(color_at(picture, 0.5, 0.4), BLOCK, atol=0.25)
    np.testing.assert_allclose(color_at(picture, -0.4, 0.3), GLAZE, atol=0.25)


@pytest.mark.parametrize(
    "changes",
    [
        {"gripper": np.array([[0.1, -0.7]])},
        {"opening": np.array([0.5])},
        {"block": np.array([[0.45, 0.4]])},
        {"tray": np.array([[-0.4, 0.25]])},
        {"height": np.array([1.0])},
    ],
)
def test_every_part_of_a_scene_shows_in_the_smallest_picture(changes):
    before = draw_scene(a_scene(), 32).astype(int)
    after = draw_scene(a_scene(**changes), 32).astype(int)
    assert np.abs(after - before).max() > 20


def test_the_gripper_does_not_hide_the_block_between_its_fingers():
    place = np.array([[0.2, 0.5]])
    scene = a_scene(gripper=place, block=place, opening=np.array([0.5]))
    picture = draw_scene(scene, 64)[0]
    np.testing.assert_allclose(color_at(picture, 0.2, 0.5), BLOCK, atol=0.25)


def test_drawing_leaves_the_next_picture_alone():
    first = draw_scene(a_scene(), 32)
    draw_scene(a_scene(block=np.array([[0.0, 0.0]])), 32)
    np.testing.assert_array_equal(draw_scene(a_scene(), 32), first)
