"""Activations computed twice: nothing but memory may tell."""

from copy import deepcopy

import torch
from torch import Tensor, nn

from manyhands.policies.activation_checkpointing import checkpointed
from manyhands.policies.vision.norms import BatchNorm


def images() -> Tensor:
    return torch.randn(3, 4, 5, 6, generator=torch.Generator().manual_seed(0)).requires_grad_()


def test_outputs_gradients_and_statistics_are_those_of_a_plain_pass():
    plain = nn.Sequential(nn.Conv2d(4, 8, 3), BatchNorm(8), nn.Mish(), nn.Conv2d(8, 2, 3))
    twice = deepcopy(plain)
    expected, output = plain(first := images()), checkpointed(twice, second := images())
    expected.square().sum().backward()
    output.square().sum().backward()
    assert torch.equal(output, expected)
    assert torch.equal(first.grad, second.grad)
    for one, other in zip(plain.parameters(), twice.parameters(), strict=True):
        assert torch.equal(one.grad, other.grad)
    for one, other in zip(plain.buffers(), twice.buffers(), strict=True):
        assert torch.equal(one, other)


def test_what_lies_between_is_not_kept():
    kept: list[Tensor] = []

    def keep(value: Tensor) -> Tensor:
        kept.append(value)
        return value

    block = nn.Sequential(*(nn.Conv2d(4, 4, 1) for _ in range(5)))
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda value: value):
        checkpointed(block, images())
    assert len(kept) <= 1


def test_without_gradients_it_is_a_plain_pass():
    block = nn.Conv2d(4, 2, 3)
    with torch.no_grad():
        assert torch.equal(checkpointed(block, images()), block(images()))
