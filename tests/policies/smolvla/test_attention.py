"""Attention, rotations and norms."""

from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F

from manyhands.policies.smolvla.attention import (
    EagerAttention,
    FusedAttention,
    Heads,
    applied,
    attention_of_few,
    join_heads,
    rms_norm,
    rotary_embedding,
    split_heads,
    weight_dtype,
)


@pytest.fixture
def heads():
    generator = torch.Generator().manual_seed(0)
    queries = torch.randn(2, 6, 5, 8, generator=generator)
    keys, values = (torch.randn(2, 2, 7, 8, generator=generator) for _ in range(2))
    return queries, Heads(keys, values)


@pytest.fixture(params=[EagerAttention(), FusedAttention(num_shared=3)], ids=["steps", "fused"])
def attention(request):
    """Attention of heads to what is visible, in one of its ways."""

    def compute(queries, seen, visible):
        return request.param(queries, seen, request.param.mask(visible, queries.dtype))

    return compute


def test_it_is_torchs_attention_with_shared_heads(heads, attention):
    queries, seen = heads
    visible = torch.rand(2, 5, 7, generator=torch.Generator().manual_seed(1)) < 0.7
    visible[..., 0] = True
    expected = F.scaled_dot_product_attention(
        queries, *seen, attn_mask=visible[:, None], enable_gqa=True
    )
    found = attention(queries, seen, visible)
    torch.testing.assert_close(found, join_heads(expected), rtol=0, atol=2e-6)


def test_few_heads_have_the_same_attention_as_two_products(heads):
    queries, seen = heads
    fused = FusedAttention(num_shared=3)
    visible = torch.rand(2, 5, 7, generator=torch.Generator().manual_seed(1)) < 0.7
    inputs = (queries.reshape(2, 2, 15, 8), *seen, fused.mask(visible, queries.dtype))
    expected = F.scaled_dot_product_attention(*inputs)
    torch.testing.assert_close(attention_of_few(*inputs), expected, rtol=0, atol=2e-6)


def test_a_query_that_sees_nothing_is_finite(heads, attention):
    queries, seen = heads
    assert attention(queries, seen, torch.zeros(2, 5, 7, dtype=torch.bool)).isfinite().all()


def test_hidden_tokens_do_not_count(heads, attention):
    queries, seen = heads
    visible = (torch.arange(7) < 4).expand(2, 5, 7)
    fewer = Heads(*(each[:, :, :4] for each in seen))
    found = attention(queries, fewer, visible[..., :4])
    torch.testing.assert_close(attention(queries, seen, visible), found)


def test_one_row_of_what_is_visible_stands_for_all(heads, attention):
    queries, seen = heads
    visible = (torch.arange(7) < torch.tensor([[4], [6]]))[:, None]
    found = attention(queries, seen, visible)
    torch.testing.assert_close(found, attention(queries, seen, visible.expand(-1, 5, -1)))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_results_step_by_step_have_the_type_of_values(heads, dtype):
    queries, seen = heads
    visible = torch.ones(2, 5, 7, dtype=torch.bool)
    values = Heads(seen.keys, seen.values.to(dtype))
    assert EagerAttention()(queries.bfloat16(), values, visible).dtype is dtype


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_fused_results_have_the_type_of_queries(heads, dtype):
    queries, seen = heads
    fused = FusedAttention(num_shared=3)
    mask = fused.mask(torch.ones(2, 5, 7, dtype=torch.bool), dtype)
    assert fused(queries.to(dtype), seen, mask).dtype is dtype


@pytest.mark.parametrize("num_rows", [1, 5])
def test_masks_lie_as_fused_kernels_read_them(num_rows):
    visible = torch.ones(2, num_rows, 7, dtype=torch.bool)
    mask = FusedAttention(num_shared=3).mask(visible, torch.bfloat16)
    assert mask.shape == (2, 1, 1 if num_rows == 1 else 15, 7)
    assert mask.stride(-1) == 1
    assert all(stride % 8 == 0 for stride in mask.stride()[:-1])


def test_rotations_of_doubles_are_not_rounded(heads):
    queries, rotation = heads[0].double(), rotary_embedding(torch.arange(5)[None], 8)
    exact = type(rotation)(*(each.double() for each in rotation))
    assert torch.equal(rotation(queries), exact(queries))


def test_products_are_in_the_type_of_weights_or_of_autocast():
    layer, tokens = torch.nn.Linear(3, 2).bfloat16(), torch.ones(1, 3)
    assert applied(layer, tokens).dtype is torch.bfloat16
    with torch.autocast("cpu", torch.bfloat16):
        assert weight_dtype(layer.float().weight) is torch.bfloat16
        assert applied(layer, tokens).dtype is torch.bfloat16
    assert applied(layer, tokens).dtype is torch.float32


def test_products_of_rotated_heads_depend_on_distances_alone(heads):
    queries, seen = heads
    keys = seen.keys[:, :1, :5]

    def products(first: int) -> torch.Tensor:
        positions = torch.arange(first, first + 5).expand(2, -1)
        rotation = rotary_embedding(positions, 8)
        return rotation(queries) @ rotation(keys).transpose(-1, -2)

    torch.testing.assert_close(products(0), products(40), rtol=0, atol=1e-4)


def test_at_position_zero_nothing_turns(heads):
    queries, _ = heads
    assert torch.equal(rotary_embedding(torch.zeros(2, 5).long(), 8)(queries), queries)


def test_heads_split_and_join():
    tokens = torch.arange(48.0).view(1, 4, 12)
    split = split_heads(tokens, 3)
    assert split.shape == (1, 4, 4, 3)
    assert torch.equal(split[0, 1, 2], tokens[0, 2, 3:6])
    assert torch.equal(join_heads(split), tokens)


def test_norms_scale_to_a_mean_square_of_one():
    norm = SimpleNamespace(weight=torch.tensor([1.0, 2.0, 3.0]), variance_epsilon=0.0)
    hidden = torch.tensor([[3.0, -3.0, 3.0]])
    assert torch.equal(rms_norm(hidden, norm), torch.tensor([[1.0, -2.0, 3.0]]))
    assert rms_norm(hidden.bfloat16(), norm).dtype is torch.float32
