"""What operations ask for is counted in closed form."""

import pytest
import torch
from torch.nn import functional as F

from manyhands_bench.step.roofline import Demand, Kernel, demand_of, flops_per_update

FLOAT = 4


def asked(compute):
    with Demand() as demand:
        compute()
    return demand.kernels


def test_a_product_reads_both_and_writes_one():
    left, right = torch.ones(5, 7), torch.ones(7, 11)
    expected = Kernel(flops=2 * 5 * 7 * 11, num_bytes=FLOAT * (5 * 7 + 7 * 11 + 5 * 11))
    assert asked(lambda: left @ right) == [expected]


def test_looking_at_a_tensor_differently_asks_for_nothing():
    block = torch.ones(6, 4)
    assert (
        asked(lambda: block.T[1:].reshape(3, 2, 3).detach().unsqueeze(0).expand(5, 3, 2, 3)) == []
    )
    assert asked(lambda: torch.empty_like(block)) == [] == asked(lambda: block[0, 0].item())


def test_repeated_entries_are_read_once():
    row = torch.ones(1, 100).expand(50, 100)
    assert asked(lambda: row + 1) == [Kernel(0, FLOAT * (100 + 50 * 100))]


def test_what_is_changed_is_read_and_written_and_what_is_overwritten_written_alone():
    target, source = torch.ones(100), torch.ones(100)
    assert asked(lambda: target.add_(source)) == [Kernel(0, FLOAT * 300)]
    assert asked(lambda: target.copy_(source)) == [Kernel(0, FLOAT * 200)]
    assert asked(lambda: target.zero_()) == [Kernel(0, FLOAT * 100)]


def test_a_fused_optimizer_reads_four_numbers_a_weight_and_writes_three():
    weight = torch.nn.Parameter(torch.ones(1000))
    optimizer = torch.optim.AdamW([weight], fused=True)
    weight.grad = torch.ones(1000)
    optimizer.step()
    (kernel,) = (each for each in asked(optimizer.step) if each.num_bytes > 1000)
    # One number more where torch writes gradients back that it has scaled.
    assert kernel.num_bytes == pytest.approx(7.5 * FLOAT * 1000, rel=0.1)


@pytest.mark.parametrize("device", ["cpu"])
def test_attention_counts_by_its_products(device):
    shape = samples, heads, tokens, width = 2, 4, 10, 8
    parts = [torch.randn(shape, device=device, requires_grad=True) for _ in range(3)]
    product = 2 * samples * heads * tokens * tokens * width
    kernels = asked(lambda: F.scaled_dot_product_attention(*parts).sum().backward())
    # A fused kernel makes the table of who looks at whom once more on the way back.
    assert sum(each.flops for each in kernels) == 7 * product


def test_an_update_asks_for_its_passes_and_for_its_optimizer(open_subject):
    with open_subject() as (_, subject, world):
        kernels = demand_of(subject, world)
        assert sum(each.flops for each in kernels) == pytest.approx(
            flops_per_update(subject, world), rel=0.1
        )
        largest = max(kernels, key=lambda each: each.num_bytes)
        assert largest.flops == 0
    with open_subject("--batch_size=32") as (_, subject, world):
        more = demand_of(subject, world)
        assert sum(each.num_bytes for each in more) > sum(each.num_bytes for each in kernels)
