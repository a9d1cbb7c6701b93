"""Pictures as the image encoder takes them."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from manyhands.config.policies.features import FeatureType, PolicyFeature
from manyhands.config.policies.smolvla import SmolVLAConfig
from manyhands.errors import UserError
from manyhands.policies.smolvla.images import camera_images, resize_with_padding

TOP, WRIST = "observation.images.top", "observation.images.wrist"


def config(empty_cameras: int = 0) -> SmolVLAConfig:
    camera = PolicyFeature(FeatureType.VISUAL, (3, 8, 8))
    return SmolVLAConfig(
        input_features={TOP: camera, WRIST: camera},
        empty_cameras=empty_cameras,
        resize_imgs_with_padding=(8, 8),
    )


def test_images_of_the_right_size_only_change_their_range():
    images = torch.rand(2, 3, 8, 8)
    assert torch.equal(resize_with_padding(images, (8, 8)), images * 2 - 1)


def test_images_lie_in_the_lower_right_and_the_rest_is_black():
    found = resize_with_padding(torch.ones(1, 3, 4, 8), (16, 16))
    assert (found[:, :, :8] == -1).all()
    assert (found[:, :, 8:] == 1).all()
    found = resize_with_padding(torch.ones(1, 3, 8, 4), (16, 16))
    assert (found[..., :8] == -1).all()
    assert (found[..., 8:] == 1).all()


@given(height=st.integers(4, 40), width=st.integers(4, 40))
def test_images_of_any_size_are_brought_to_one(height, width):
    found = resize_with_padding(torch.ones(1, 3, height, width), (16, 16))
    assert found.shape == (1, 3, 16, 16)
    assert found[..., -1, -1].eq(1).all()


def test_a_missing_camera_is_left_out():
    pictures = camera_images({WRIST: torch.zeros(2, 3, 8, 8)}, config())
    assert pictures.pixels.shape == (1, 2, 3, 8, 8)
    assert pictures.are_there.all()


def test_empty_cameras_stand_in_for_missing_ones_and_are_marked():
    top = torch.rand(2, 3, 8, 8)
    pictures = camera_images({TOP: top, WRIST: top}, config(empty_cameras=2))
    assert pictures.pixels.shape == (4, 2, 3, 8, 8)
    assert (pictures.pixels[2:] == -1).all()
    assert pictures.are_there.tolist() == [[True, True]] * 2 + [[False, False]] * 2


def test_no_more_cameras_are_empty_than_are_missing():
    pictures = camera_images({TOP: torch.rand(1, 3, 8, 8)}, config(empty_cameras=1))
    assert len(pictures.pixels) == 2


def test_a_mask_tells_which_samples_have_a_picture():
    observation = {TOP: torch.zeros(2, 3, 8, 8), f"{TOP}_padding_mask": torch.tensor([1, 0])}
    assert camera_images(observation, config()).are_there.tolist() == [[True, False]]


def test_no_camera_at_all_is_refused_with_the_names():
    with pytest.raises(UserError, match=rf"none of the cameras {TOP}, {WRIST}; it has action"):
        camera_images({"action": torch.zeros(1)}, config())
