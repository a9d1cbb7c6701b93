"""The moment from which on a backward pass only communicates."""

import torch
from torch import nn

from manyhands.training.step.last_gradient import LastGradient


def test_the_last_gradient_is_learned_in_one_pass_and_reported_in_each_one_after():
    network = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    calls: list[list[bool]] = []

    def note() -> None:
        calls.append([weight.grad is not None for weight in network.parameters()])

    last = LastGradient(network.parameters(), note)
    for number in range(3):
        network(torch.ones(1, 2)).sum().backward()
        assert len(calls) == number
        if number == 0:
            last.settle()
        network.zero_grad()
    assert all(all(have) for have in calls)


def test_frozen_weights_and_no_weights_have_no_hook():
    frozen = nn.Linear(2, 1).requires_grad_(False)
    for weights in (frozen.parameters(), ()):
        LastGradient(weights, lambda: None).settle()
    assert not frozen.weight._post_accumulate_grad_hooks
