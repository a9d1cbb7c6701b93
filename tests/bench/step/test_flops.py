"""Operations counted."""

import torch
from torch import nn
from torch.nn import functional as F

from manyhands_bench.step.roofline import counted_flops, flops_per_update


def test_products_are_counted_in_closed_form():
    samples, width, hidden, out = 5, 7, 11, 3
    network = nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, out))
    batch = torch.randn(samples, width)
    first, second = 2 * samples * width * hidden, 2 * samples * hidden * out
    # Gradients of weights for both, and of what the second one reads.
    assert counted_flops(lambda: network(batch).sum()) == 2 * first + 3 * second


def test_convolutions_are_counted_in_closed_form():
    convolution = nn.Conv2d(3, 8, kernel_size=5, padding=2, bias=False)
    images = torch.randn(2, 3, 16, 16)
    forward = 2 * (2 * 16 * 16) * 8 * (3 * 5 * 5)
    assert counted_flops(lambda: convolution(images).sum()) == 2 * forward


def test_attention_is_counted_in_closed_form():
    shape = samples, heads, tokens, width = 2, 4, 10, 8
    q, k, v = (torch.randn(shape, requires_grad=True) for _ in range(3))
    product = 2 * samples * heads * tokens * tokens * width
    # Two products forward, and two for each of them back.
    assert counted_flops(lambda: F.scaled_dot_product_attention(q, k, v).sum()) == 6 * product


def test_an_update_takes_as_many_operations_as_its_samples_together(open_subject):
    def counted(batch_size):
        with open_subject(f"--batch_size={batch_size}") as (_, subject, world):
            return flops_per_update(subject, world)

    assert counted(1) > 0
    assert counted(8) == 8 * counted(1) == 4 * counted(2)
