"""Computing as on a GPU."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from manyhands.plan.gpu_emulation import GpuEmulation, LiveBytes

LOW = torch.bfloat16


def test_products_are_in_low_precision_and_norms_in_full_as_cuda_has_it():
    values, layer, norm = torch.ones(2, 8), nn.Linear(8, 8), nn.LayerNorm(8)
    with GpuEmulation(in_low_precision=True) as likeness, likeness.autocast():
        product = layer(values)
        assert product.dtype == LOW and F.relu(product).dtype == LOW
        for full in (norm(product), product.softmax(-1), product.sum(), product.exp(), product**2):
            assert full.dtype == torch.float32
    assert layer(values).dtype == torch.float32


def test_without_low_precision_all_is_as_ever():
    values, layer = torch.ones(2, 8), nn.Linear(8, 8)
    with GpuEmulation(in_low_precision=False) as likeness, likeness.autocast():
        assert layer(values).dtype == torch.float32


def test_tensors_say_that_they_are_on_a_gpu():
    value = torch.ones(1)
    with GpuEmulation(in_low_precision=True):
        assert value.is_cuda
    assert not value.is_cuda


@pytest.mark.parametrize("is_masked", [False, True])
def test_attention_has_its_shapes_and_keeps_no_table(is_masked):
    queries = torch.ones(2, 4, 600, 8, requires_grad=True)
    keys, values = (torch.ones(2, 4, 700, 8, requires_grad=True) for _ in range(2))
    mask = torch.ones(600, 700, dtype=torch.bool) if is_masked else None
    table = 2 * 4 * 600 * 700 * 2
    with GpuEmulation(in_low_precision=True) as likeness, LiveBytes() as live:
        with likeness.autocast():
            mixed = F.scaled_dot_product_attention(queries, keys, values, mask, dropout_p=0.1)
        assert mixed.shape == queries.shape and mixed.dtype == LOW
        mixed.sum().backward()
    assert live.most < table
    assert keys.grad is not None and keys.grad.shape == keys.shape
