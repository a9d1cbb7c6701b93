"""Gradients in half the bytes."""

import pytest
import torch
from torch import nn

from manyhands.parallel.accelerate_engine import compress_gradients


def test_a_process_alone_exchanges_nothing():
    network = nn.Linear(2, 2)
    assert compress_gradients(network) is network


@pytest.mark.process
def test_gradients_are_rounded_on_their_way_and_alike_on_every_rank(two_ranks):
    plain, rounded = (two_ranks[0][way]["gradients"] for way in ("plain", "rounded"))
    assert plain != rounded
    assert rounded == two_ranks[1]["rounded"]["gradients"]
    for exact, near in zip(plain, rounded, strict=True):
        assert near == pytest.approx(exact, rel=2**-6, abs=1e-3)
        assert torch.tensor(near).bfloat16().float().tolist() == near
