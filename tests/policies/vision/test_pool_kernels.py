"""Max pooling by our kernels equals torch's, forward and backward, for any input.

With TRITON_INTERPRET=1 the same tests run on a CPU, in Triton's interpreter.
"""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from torch import Tensor

from manyhands.policies.vision.resnet import can_pool, max_pool

pytestmark = [pytest.mark.gpu, pytest.mark.kernels]

DTYPES = [torch.float32, torch.float16, torch.bfloat16]
SIZES = st.sampled_from([1, 2, 3, 4, 5, 6, 7, 8, 13, 21, 42])
SHAPES = st.tuples(
    st.sampled_from([0, 1, 2, 3, 5]), st.sampled_from([1, 2, 3, 5, 16, 64]), SIZES, SIZES
)
SPECIAL = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, -0.0])
KINDS = ["ties", "normal", "special", "lowest"]
# A smaller example is not worth compiling hundreds of kernels for.
unshrunk = settings(phases=[Phase.explicit, Phase.reuse, Phase.generate])


@pytest.fixture(scope="module")
def device(kernel_device):
    return kernel_device


def drawn_images(shape, dtype, kind: str, seed: int) -> Tensor:
    """Images of a kind, on the CPU."""
    generator = torch.Generator().manual_seed(seed)
    if kind == "ties":  # Few different values: many windows have several largest pixels.
        return torch.randint(0, 4, shape, generator=generator).to(dtype)
    if kind == "lowest":
        return torch.full(shape, -float("inf"), dtype=dtype)
    values = torch.randn(shape, generator=generator)
    if kind == "special":
        chosen = SPECIAL[torch.randint(len(SPECIAL), shape, generator=generator)]
        values = torch.where(torch.rand(shape, generator=generator) < 0.4, chosen, values)
    return values.to(dtype)


def whole_numbers(like: Tensor, seed: int) -> Tensor:
    """A gradient of small whole numbers: their sums are exact in any order."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-8, 9, like.shape, generator=generator).to(like.dtype)


def expected_of(images: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
    """What torch computes on the CPU, in single precision and with dense rows."""
    leaf = images.float().clone(memory_format=torch.contiguous_format).requires_grad_()
    values = F.max_pool2d(leaf, 3, 2, 1)
    values.backward(gradient.float())
    assert leaf.grad is not None
    return values.detach().to(images.dtype), leaf.grad.to(images.dtype)


def assert_same(found: Tensor, expected: Tensor) -> None:
    """Equal bit by bit but for the bits of NaN."""
    torch.testing.assert_close(found.cpu(), expected, rtol=0, atol=0, equal_nan=True)


@unshrunk
@given(
    data=st.data(),
    shape=SHAPES,
    dtype=st.sampled_from(DTYPES),
    kind=st.sampled_from(KINDS),
    seed=st.integers(0, 99),
)
def test_values_and_gradients_are_torchs_in_any_layout(
    device, any_layout, data, shape, dtype, kind, seed
):
    from manyhands.policies.vision.pool_kernels import pool

    images = drawn_images(shape, dtype, kind, seed)
    gradient = whole_numbers(F.max_pool2d(images, 3, 2, 1), seed)
    expected = expected_of(images, gradient)
    leaf = data.draw(any_layout(images.to(device))).requires_grad_()
    values, _ = pool(leaf)
    values.backward(data.draw(any_layout(gradient.to(device))))
    assert values.is_contiguous(memory_format=torch.channels_last)
    assert_same(values.detach(), expected[0])
    assert_same(leaf.grad, expected[1])


@unshrunk
@given(data=st.data(), shape=SHAPES, dtype=st.sampled_from(DTYPES), seed=st.integers(0, 99))
def test_both_inputs_of_the_gradient_may_have_any_layout(
    device, any_layout, data, shape, dtype, seed
):
    from manyhands.policies.vision.pool_kernels import pool, spread

    images = drawn_images(shape, dtype, "ties", seed)
    values, places = pool(images.to(device))
    gradient = whole_numbers(values, seed)
    given_gradient = data.draw(any_layout(gradient.to(device)))
    given_places = data.draw(any_layout(places))
    found = spread(given_gradient, given_places, *shape[2:])
    assert found.is_contiguous(memory_format=torch.channels_last)
    assert_same(found, expected_of(images, gradient)[1])


def test_a_gradient_may_be_one_value_for_all(device):
    from manyhands.policies.vision.pool_kernels import pool

    images = drawn_images((2, 3, 7, 6), torch.float32, "ties", 0)
    leaf = images.to(device, copy=True).requires_grad_()
    pool(leaf)[0].sum().backward()
    assert_same(leaf.grad, expected_of(images, torch.ones(2, 3, 4, 3))[1])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_values(device, kind, dtype):
    check_dense(drawn_images((3, 16, 7, 6), dtype, kind, 3), device)


@pytest.mark.parametrize("shape", [(1, 64, 13, 11), (2, 64, 49, 45), (33, 64, 42, 42)])
def test_images_of_many_blocks(device, shape):
    if device.type != "cuda" and shape[0] > 1:
        pytest.skip("takes minutes in the interpreter")
    check_dense(drawn_images(shape, torch.float32, "ties", 1), device)


def check_dense(images: Tensor, device: torch.device) -> None:
    """Values and gradients of dense images are torch's."""
    from manyhands.policies.vision.pool_kernels import pool

    gradient = whole_numbers(F.max_pool2d(images, 3, 2, 1), 1)
    expected = expected_of(images, gradient)
    leaf = images.to(device, copy=True).requires_grad_()
    values, _ = pool(leaf)
    values.backward(gradient.to(device))
    assert_same(values.detach(), expected[0])
    assert_same(leaf.grad, expected[1])


@pytest.mark.parametrize("shape", [(2, 3, 5, 4), (1, 16, 1, 1), (3, 1, 8, 7)])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_compilers_know_the_strides_of_all_outputs(device, shape, layout):
    """A fake tensor with other strides than the real one makes compiled kernels read elsewhere."""
    from manyhands.policies.vision.pool_kernels import pool, spread

    images = torch.rand(shape, device=device).contiguous(memory_format=layout)
    values, places = (each.contiguous(memory_format=layout) for each in pool(images))
    torch.library.opcheck(pool, (images.requires_grad_(),))
    torch.library.opcheck(spread, (values.detach(), places, *shape[2:]))


def test_compiled_networks_use_them(device):
    if device.type != "cuda":
        pytest.skip("only a GPU has kernels")
    graphs = []

    def keep(graph, _):
        graphs.append(graph)
        return graph.forward

    images = torch.rand(2, 64, 10, 12, device="cuda").contiguous(memory_format=torch.channels_last)
    found = torch.compile(max_pool, backend=keep)(images)
    used = {str(node.target) for graph in graphs for node in graph.graph.nodes}
    assert any("manyhands" in name for name in used), used
    assert torch.equal(found, max_pool(images))


@pytest.mark.gpu_serial
@pytest.mark.parametrize("shape", [(2**31 - 1, 1, 1, 1), (116_105, 64, 17, 17)])
def test_the_last_of_two_billion_pixels_is_pooled(device, is_memory_checked, shape):
    if device.type != "cuda" or is_memory_checked:
        pytest.skip("takes a GPU at full speed")
    if torch.cuda.mem_get_info()[0] < 24 * 2**30:
        pytest.skip("needs 24 GiB of GPU memory")
    from manyhands.policies.vision.pool_kernels import pool, spread

    images = torch.zeros(shape, dtype=torch.float16, device=device)
    # 32 bits have no room for more.
    assert 0.99 < images.numel() / 2**31 < 1 and can_pool(images)
    last = images[-3:]
    last.copy_(drawn_images(last.shape, images.dtype, "ties", 2))
    values, places = pool(images)
    gradient = whole_numbers(values[-3:], 2)
    expected = expected_of(last.cpu(), gradient)
    assert_same(values[-3:], expected[0])
    values.zero_()[-3:] = gradient.to(device)
    assert_same(spread(values, places, *shape[2:])[-3:], expected[1])
