"""The first convolution, computed by cells of pixels."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from manyhands.policies.vision.resnet import Stem, image_cells, weight_cells

TOLERANCES = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 1e-2, torch.float16: 2e-3}


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


@given(
    data=st.data(),
    number=st.sampled_from([0, 1, 2, 3]),
    size=st.tuples(st.integers(1, 23), st.integers(1, 23)),
    num_outputs=st.integers(1, 5),
)
def test_images_and_weights_of_any_size_and_layout_give_the_same_gradients(
    any_layout, data, number, size, num_outputs
):
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(number, 3, *size, dtype=torch.float64, generator=generator)
    weight = torch.rand(num_outputs, 3, 7, 7, dtype=torch.float64, generator=generator)
    leaves = [data.draw(any_layout(each)).requires_grad_() for each in (images, weight)]
    expected = F.conv2d(*leaves, stride=2, padding=3)
    found = F.conv2d(image_cells(leaves[0]), weight_cells(leaves[1]))
    assert found.shape == expected.shape
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    wanted, got = (torch.autograd.grad(sums.square().sum(), leaves) for sums in (expected, found))
    torch.testing.assert_close(got, wanted, rtol=1e-11, atol=1e-11)


@pytest.mark.gpu
@pytest.mark.kernels
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@settings(phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(
    data=st.data(),
    number=st.sampled_from([0, 1, 2, 3, 33]),
    size=st.tuples(st.integers(1, 43), st.integers(1, 43)),
    precision=st.sampled_from(list(TOLERANCES)),
)
def test_a_gpu_finds_what_a_cpu_finds_in_any_layout(any_layout, data, number, size, precision):
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(number, 3, *size, generator=generator).to(precision)
    weight = torch.randn(64, 3, 7, 7, generator=generator).to(precision)
    leaves = [each.to(torch.float64, copy=True).requires_grad_() for each in (images, weight)]
    expected = F.conv2d(*leaves, stride=2, padding=3)
    upper = torch.randn(expected.shape, generator=generator).to(precision)
    expected.backward(upper.double())
    stem = Stem(64).to("cuda", precision)
    stem.weight.data = data.draw(any_layout(weight.cuda(), is_dense=True))
    leaf = data.draw(any_layout(images.cuda())).requires_grad_()
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        found = stem(leaf)
        # cuDNN faults on a gradient that is not aligned to 16 bytes; a layer gives an aligned one.
        found.backward(data.draw(any_layout(upper.cuda(), max_offset=0)))
    pairs = [
        (found.detach(), expected.detach()),
        (leaf.grad, leaves[0].grad),
        (stem.weight.grad, leaves[1].grad),
    ]
    for got, wanted in pairs:
        if got is None:
            assert number == 0  # Without images there is no gradient.
            continue
        # Relative to the largest: sums of many products may cancel out.
        scale = wanted.abs().max().item() if wanted.numel() else 1.0
        most = TOLERANCES[precision] * scale
        torch.testing.assert_close(got.cpu().double(), wanted, rtol=0, atol=most)
