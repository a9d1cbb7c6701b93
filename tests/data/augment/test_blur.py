"""Focus, motion and sharpness."""

import math

import pytest
import torch

from manyhands.data.augment.blur import (
    GaussianBlur,
    MotionBlur,
    SharpnessJitter,
    convolved,
    gaussian_taps,
    line_kernels,
    smoothed,
)


def dot(size: int, value: float = 1.0) -> torch.Tensor:
    """A picture that is black but for its middle."""
    pictures = torch.zeros(1, 1, 3, size, size)
    pictures[..., size // 2, size // 2] = value
    return pictures


@pytest.mark.parametrize(
    ("factor", "middle"),
    [(0.0, 2.5 / 13), (1.0, 0.5), (0.5, 0.25 + 1.25 / 13), (2.0, 1 - 2.5 / 13)],
)
def test_sharpness_blends_with_the_smoothed_picture(factor, middle):
    sharper = SharpnessJitter(sharpness=(factor, factor))(dot(3, 0.5), torch.zeros(1, 1))
    assert sharper[0, 0, :, 1, 1].tolist() == pytest.approx([middle] * 3)


def test_smoothing_weighs_the_middle_five_times_and_keeps_the_border():
    expected = torch.zeros(5, 5)
    expected[1:4, 1:4] = 1 / 13
    expected[2, 2] = 5 / 13
    torch.testing.assert_close(smoothed(dot(5))[0, 0, 0], expected)
    border = torch.rand(1, 1, 3, 6, 7)
    soft = smoothed(border)
    for edge in ((..., 0), (..., -1), (..., 0, slice(None)), (..., -1, slice(None))):
        assert torch.equal(soft[edge], border[edge])


def test_a_picture_without_an_inside_stays_as_it_is():
    narrow = torch.rand(1, 1, 3, 2, 9)
    assert torch.equal(smoothed(narrow), narrow)


def test_a_gaussian_kernel_is_a_normalized_bell():
    taps = gaussian_taps(torch.tensor([1.0, 0.01]), 3)
    side = math.exp(-0.5)
    expected = torch.tensor([side, 1.0, side]) / (1 + 2 * side)
    torch.testing.assert_close(taps[0], expected)
    assert taps[1].tolist() == [0.0, 1.0, 0.0]


def test_gaussian_blur_spreads_by_its_own_sigma_in_both_directions():
    blur = GaussianBlur(kernel_size=(5, 3), sigma=(0.5, 2.0))
    seen = blur(dot(7).expand(2, -1, -1, -1, -1), torch.tensor([[0.0], [1.0]]))
    for sample, sigma in enumerate((0.5, 2.0)):
        across, down = (gaussian_taps(torch.tensor([sigma]), size)[0] for size in (5, 3))
        torch.testing.assert_close(seen[sample, 0, 1, 2:5, 1:6], down[:, None] * across)
    torch.testing.assert_close(seen.sum(dim=(-2, -1)), torch.ones(2, 1, 3))


def test_blurring_keeps_an_even_picture_even_to_its_edges():
    even = torch.full((2, 1, 3, 8, 8), 0.4)
    for blur in (GaussianBlur((5, 5), (1.0, 2.0)), MotionBlur((3, 7))):
        torch.testing.assert_close(blur(even, torch.rand(2, blur.num_uniforms)), even)


def test_each_sample_has_its_own_kernel(pictures):
    kernels = torch.zeros(4, 3, 3)
    kernels[:, 1, 1] = 1
    kernels[2] = torch.tensor([[0.0, 0, 0], [0, 0, 1], [0, 0, 0]])
    seen = convolved(pictures, kernels)
    assert torch.equal(seen[[0, 1, 3]], pictures[[0, 1, 3]])
    assert torch.equal(seen[2, ..., :-1], pictures[2, ..., 1:])
    assert torch.equal(seen[2, ..., -1], pictures[2, ..., -1])


def test_motion_lines_lie_in_their_direction_and_have_their_length():
    reach, angle = torch.tensor([1.0, 2.0, 0.0]), torch.tensor([0.0, math.pi / 2, 1.0])
    across, down, point = line_kernels(reach, angle, 2)
    third, fifth = 1 / 3, 1 / 5
    torch.testing.assert_close(across[2], torch.tensor([0, third, third, third, 0]))
    torch.testing.assert_close(across.sum(1), torch.tensor([0, 0, 1.0, 0, 0]))
    torch.testing.assert_close(down[:, 2], torch.full((5,), fifth), atol=1e-6, rtol=0)
    assert point[2, 2] == point.sum() == 1


def test_motion_kernels_sum_to_one_at_any_angle_and_size():
    reach, angle = torch.randint(0, 5, (50,)).float(), torch.rand(50) * math.pi
    torch.testing.assert_close(line_kernels(reach, angle, 4).sum(dim=(1, 2)), torch.ones(50))


def test_motion_blur_draws_all_odd_sizes_of_its_range():
    uniforms = torch.stack([torch.linspace(0, 0.99, 90), torch.zeros(90)], dim=1)
    seen = MotionBlur((3, 7))(dot(9).expand(90, -1, -1, -1, -1), uniforms)
    lengths = (seen[:, 0, 0, 4] > 0).sum(1)
    assert lengths.unique(return_counts=True)[0].tolist() == [3, 5, 7]
