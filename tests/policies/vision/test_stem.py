"""The first convolution, computed by cells of pixels."""

import pytest
import torch
import torch.nn.functional as F

from manyhands.policies.vision.stem import Stem, image_cells, weight_cells


@pytest.mark.parametrize("size", [(8, 8), (7, 9), (12, 5), (1, 2)])
def test_cells_give_the_same_sums(size):
    images = torch.rand(2, 3, *size, dtype=torch.float64)
    stem = Stem(4).double()
    expected = stem(images)
    found = F.conv2d(image_cells(images), weight_cells(stem.weight))
    assert found.shape == expected.shape
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    wanted, got = (
        torch.autograd.grad(sums.square().sum(), stem.weight)[0] for sums in (expected, found)
    )
    torch.testing.assert_close(got, wanted, rtol=1e-12, atol=1e-12)


def test_cells_have_their_channels_last_and_as_many_as_kernels_like():
    cells = image_cells(torch.rand(2, 3, 6, 8))
    assert cells.is_contiguous(memory_format=torch.channels_last)
    assert cells.shape == (2, 16, 6, 7)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_a_gpu_finds_what_a_cpu_finds():
    stem, images = Stem(8).double(), torch.rand(2, 3, 9, 10, dtype=torch.float64)
    expected = stem(images)
    torch.testing.assert_close(stem.cuda()(images.cuda()).cpu(), expected)
