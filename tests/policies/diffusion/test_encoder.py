"""What image encoders look at, and where they say that something is."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from manyhands.policies.diffusion.encoder import (
    ImageEncoder,
    SpatialSoftmax,
    center_crop,
    crop,
    crop_margin,
    seen_size,
)

SHAPE = (3, 64, 96)


@pytest.fixture(scope="module")
def images():
    return torch.rand(4, *SHAPE, generator=torch.Generator().manual_seed(0))


@settings(max_examples=40)
@given(data=st.data(), height=st.integers(1, 9), width=st.integers(1, 9))
def test_every_image_is_cropped_at_its_own_corner(data, height, width):
    rows, columns = (data.draw(st.integers(1, size)) for size in (height, width))
    corner = st.tuples(st.integers(0, height - rows), st.integers(0, width - columns))
    corners = data.draw(st.lists(corner, min_size=1, max_size=4))
    images = torch.arange(len(corners) * 3 * height * width).view(-1, 3, height, width)
    cropped = crop(images, (rows, columns), torch.tensor(corners))
    expected = [
        image[:, top : top + rows, left : left + columns]
        for image, (top, left) in zip(images, corners, strict=True)
    ]
    assert torch.equal(cropped, torch.stack(expected))


def test_crops_have_their_channels_last(images):
    cropped = crop(images, (56, 40), torch.zeros(4, 2, dtype=torch.int64))
    assert cropped.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize(("whole", "part", "first"), [(9, 4, 2), (7, 4, 2), (8, 4, 2), (5, 4, 0)])
def test_the_center_is_rounded_to_the_even_neighbor(whole, part, first):
    image = torch.arange(whole).expand(1, 3, whole, whole)
    assert center_crop(image, (part, part))[0, 0, 0].tolist() == [*range(first, first + part)]


@pytest.mark.parametrize(
    ("changes", "seen", "room"),
    [
        ({}, (64, 96), (0, 0)),
        ({"crop_shape": (56, 96)}, (56, 96), (8, 0)),
        ({"resize_shape": (48, 72)}, (48, 72), (0, 0)),
        ({"resize_shape": (48, 72), "crop_ratio": 0.9}, (43, 64), (5, 8)),
    ],
)
def test_sizes_follow_from_the_configuration(golden, images, changes, seen, room):
    config = golden.diffusion_config(cameras=True, **changes)
    assert seen_size(config, SHAPE) == seen
    assert crop_margin(config, SHAPE) == room
    encoder = ImageEncoder(config, SHAPE).eval()
    assert encoder.prepare(images, None).shape == (4, 3, *seen)
    rows, columns = -(-seen[0] // 32), -(-seen[1] // 32)
    assert encoder.pool.pos_grid.shape == (rows * columns, 2)
    assert encoder(encoder.prepare(images, None)).shape == (4, 16)


def test_images_are_resized_smoothly_and_then_cropped(golden, images):
    config = golden.diffusion_config(cameras=True, resize_shape=(48, 72), crop_ratio=0.9)
    encoder = ImageEncoder(config, SHAPE)
    resized = F.interpolate(images, (48, 72), mode="bilinear", antialias=True)
    corners = torch.tensor([[0, 0], [5, 8], [2, 3], [5, 0]])
    seen = encoder.prepare(images, corners)
    assert torch.equal(seen, crop(resized, (43, 64), corners))
    assert torch.equal(encoder.prepare(images, None), resized[:, :, 2:45, 4:68])


def test_images_of_the_right_size_are_not_copied(golden, images):
    encoder = ImageEncoder(golden.diffusion_config(cameras=True), SHAPE)
    assert encoder.prepare(images, None) is images
    cropping = ImageEncoder(golden.diffusion_config(cameras=True, crop_shape=(56, 56)), SHAPE)
    seen = cropping.prepare(images, None)
    assert seen.untyped_storage().data_ptr() == images.untyped_storage().data_ptr()


def test_points_are_where_the_feature_is():
    pool = SpatialSoftmax(num_channels=2, num_keypoints=2, height=3, width=5)
    pool.nets.weight.data = 100 * torch.eye(2)[:, :, None, None]
    maps = torch.zeros(1, 2, 3, 5)
    maps[0, 0, 0, 4] = maps[0, 1, 2, 1] = 1
    assert pool(maps)[0].tolist() == [[1.0, -1.0], [-0.5, 1.0]]
    assert pool(torch.zeros(1, 2, 3, 5)).abs().max() < 1e-7


def test_coordinates_go_along_rows_from_minus_one_to_one():
    grid = SpatialSoftmax(1, 1, height=2, width=3).pos_grid
    assert grid.tolist() == [[-1, -1], [0, -1], [1, -1], [-1, 1], [0, 1], [1, 1]]
    assert SpatialSoftmax(1, 1, height=1, width=1).pos_grid.tolist() == [[-1, -1]]


@pytest.mark.parametrize("num_keypoints", [1, 5])
def test_an_image_becomes_two_values_per_keypoint(golden, images, num_keypoints):
    config = golden.diffusion_config(cameras=True, spatial_softmax_num_keypoints=num_keypoints)
    encoder = ImageEncoder(config, SHAPE).eval()
    assert encoder(images).shape == (len(images), 2 * num_keypoints)
