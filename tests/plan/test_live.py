"""Bytes of tensors while something computes."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from manyhands.plan.gpu_emulation import BLOCK, LiveBytes, in_blocks


def test_tensors_count_while_they_are_there():
    with LiveBytes() as live:
        first = torch.empty(BLOCK // 4)
        second = torch.empty(3 * BLOCK // 4)
        assert live.now == 4 * BLOCK
        del first
        assert (live.now, live.most) == (3 * BLOCK, 4 * BLOCK)
        live.reset_peak()
        del second
        assert (live.now, live.most) == (0, 3 * BLOCK)


def test_one_memory_counts_once():
    with LiveBytes() as live:
        values = torch.empty(4, BLOCK)
        views = [values[0], values.T, values.view(-1), values.detach()]
        values.add_(1)
        assert live.now == 4 * 4 * BLOCK
        del values
        assert live.now == 4 * 4 * BLOCK, "a view holds all of it"
        del views
        assert live.now == 0


def test_what_was_there_before_counts_where_it_is_told():
    old = torch.empty(BLOCK)
    with LiveBytes() as live:
        live.count([old, old])
        old.mul_(2)
    assert live.now == 4 * BLOCK


def test_a_backward_pass_is_seen():
    weight = torch.ones(BLOCK, requires_grad=True)
    with LiveBytes() as live:
        output = (weight.exp() * 2).sum()
        kept = live.now
        output.backward()
        del output
    assert kept == 4 * BLOCK + BLOCK, "the exponential is kept for its gradient, and a sum"
    assert live.now == 4 * BLOCK, "the gradient stays"


@given(st.integers(0, 10**9))
def test_memory_comes_in_blocks(size):
    taken = in_blocks(size)
    assert taken % BLOCK == 0 and size <= taken < size + BLOCK
