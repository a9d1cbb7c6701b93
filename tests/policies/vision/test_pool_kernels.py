"""Kernels of a GPU take the largest pixels as torch does, and lead gradients back the same way."""

import pytest
import torch
import torch.nn.functional as F

from manyhands.policies.vision.resnet import max_pool

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU"),
]


def with_gradient(pool, images, gradient):
    images = images.clone(memory_format=torch.preserve_format).requires_grad_()
    values = pool(images)
    values.backward(gradient)
    return values.detach(), images.grad


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("size", [(8, 8), (7, 9), (12, 5), (1, 2), (240, 320)])
def test_pixels_and_gradients_are_torchs(size, dtype):
    from manyhands.policies.vision.pool_kernels import pool

    # Few different values, so that many windows have several largest pixels.
    images = torch.randint(0, 9, (3, 64, *size), device="cuda").to(dtype)
    images = images.contiguous(memory_format=torch.channels_last)
    expected = F.max_pool2d(images, 3, 2, 1)
    # Small whole numbers: their sums are exact in any order.
    gradient = torch.randint_like(expected, -8, 9)
    found = with_gradient(lambda images: pool(images)[0], images, gradient)
    wanted = with_gradient(
        lambda images: F.max_pool2d(images.float(), 3, 2, 1), images, gradient.float()
    )
    assert torch.equal(found[0], expected)
    assert torch.equal(found[1], wanted[1])
    assert all(each.is_contiguous(memory_format=torch.channels_last) for each in found)


def test_what_is_not_a_number_is_handed_on():
    from manyhands.policies.vision.pool_kernels import pool

    images = torch.rand(1, 64, 6, 6, device="cuda")
    images[0, 3, 2, 2] = float("nan")
    values, _ = pool(images)
    assert torch.equal(values.isnan(), F.max_pool2d(images, 3, 2, 1).isnan())


def test_compiled_networks_use_them():
    graphs = []

    def keep(graph, _):
        graphs.append(graph)
        return graph.forward

    images = torch.rand(2, 64, 10, 12, device="cuda").contiguous(memory_format=torch.channels_last)
    found = torch.compile(max_pool, backend=keep)(images)
    used = {str(node.target) for graph in graphs for node in graph.graph.nodes}
    assert any("manyhands" in name for name in used), used
    assert torch.equal(found, max_pool(images))
