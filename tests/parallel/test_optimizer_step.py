"""Steps that gradients which are not finite cannot take."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW, Optimizer

from manyhands.parallel.optimizer_step import clip_and_step, tensors_of

OPTIMIZERS: dict[str, Callable[..., Optimizer]] = {
    "adam": lambda weights: Adam(weights, lr=0.1, weight_decay=0.1, fused=True),
    "adamw": lambda weights: AdamW(weights, lr=0.1, fused=True),
    "sgd": lambda weights: SGD(weights, lr=0.1, weight_decay=0.1, fused=True),
    "dampened": lambda weights: SGD(weights, lr=0.1, momentum=0.9, dampening=0.5),
    "unfused": lambda weights: AdamW(weights, lr=0.1, weight_decay=0.1, foreach=True),
}


TOLERANCES = {
    torch.float32: {"rtol": 1e-6, "atol": 1e-7},
    torch.float64: {"rtol": 1e-14, "atol": 1e-15},
}


@pytest.fixture(params=OPTIMIZERS)
def make(request) -> Callable[[], tuple[nn.Linear, Optimizer]]:
    """Makes a network with its optimizer, always the same."""

    def made() -> tuple[nn.Linear, Optimizer]:
        torch.manual_seed(0)
        network = nn.Linear(3, 2)
        return network, OPTIMIZERS[request.param](network.parameters())

    return made


def step(network: nn.Module, optimizer: Optimizer, value: float, max_norm: float = 0.0) -> None:
    """A step by gradients of which one entry has a value."""
    for weight in network.parameters():
        weight.grad = torch.full_like(weight, 0.5)
        weight.grad.view(-1)[0] = value
    norm = nn.utils.get_total_norm([weight.grad for weight in network.parameters()])
    clip_and_step(optimizer, norm, max_norm)


def everything(network: nn.Module, optimizer: Optimizer) -> list[Tensor]:
    states = optimizer.state_dict()["state"].values()
    moments = [each for state in states for each in state.values() if each is not None]
    return [value.clone() for value in (*network.parameters(), *moments)]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_bad_step_leaves_weights_and_memory_bit_for_bit(make, value):
    network, optimizer = make()
    step(network, optimizer, 1.0)
    before = everything(network, optimizer)
    step(network, optimizer, value)
    after = everything(network, optimizer)
    assert len(before) == len(after)
    assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))


def test_steps_after_a_bad_one_are_those_without_it(make):
    values = [1.0, 2.0, float("nan"), 3.0]
    (network, optimizer), (other, plain) = make(), make()
    for value in values:
        step(network, optimizer, value)
    for value in (1.0, 2.0, 3.0):
        step(other, plain, value)
    pairs = zip(everything(network, optimizer), everything(other, plain), strict=True)
    assert all(torch.equal(one, another) for one, another in pairs)


def test_a_bad_first_step_leaves_no_trace_that_is_not_finite(make):
    network, optimizer = make()
    before = [weight.detach().clone() for weight in network.parameters()]
    step(network, optimizer, float("nan"))
    pairs = zip(before, network.parameters(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)
    step(network, optimizer, 1.0)
    assert all(value.isfinite().all() for value in everything(network, optimizer))


def test_a_sound_step_is_the_optimizers_own(make):
    (network, optimizer), (other, plain) = make(), make()
    for value in (1.0, 2.0):
        step(network, optimizer, value)
        for weight, another in zip(network.parameters(), other.parameters(), strict=True):
            another.grad = weight.grad.clone()
        plain.step()
    pairs = zip(everything(network, optimizer), everything(other, plain), strict=True)
    assert all(torch.equal(one, another) for one, another in pairs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradients_are_brought_down_to_the_largest_norm(make, dtype):
    (network, optimizer), (other, plain) = make(), make()
    network.to(dtype), other.to(dtype)
    for value in (0.1, 20.0):
        step(network, optimizer, value, max_norm=2.0)
        gradients = [torch.full_like(each, 0.5) for each in other.parameters()]
        for weight, gradient in zip(other.parameters(), gradients, strict=True):
            gradient.view(-1)[0] = value
            weight.grad = gradient
        nn.utils.clip_grad_norm_(other.parameters(), 2.0)
        plain.step()
    pairs = zip(everything(network, optimizer), everything(other, plain), strict=True)
    for one, another in pairs:
        torch.testing.assert_close(one, another, **TOLERANCES[dtype])


@pytest.mark.parametrize("make", sorted(OPTIMIZERS.keys() - {"unfused"}), indirect=True)
def test_the_device_decides_by_itself(make, no_host_synchronization):
    # What is not fused counts its steps on the host, and asks there.
    network, optimizer = make()
    step(network, optimizer, 1.0)
    before = everything(network, optimizer)
    with no_host_synchronization():
        step(network, optimizer, float("nan"))
    assert all(map(torch.equal, before, everything(network, optimizer)))


@pytest.mark.process
def test_one_ranks_bad_gradients_change_nothing_on_any_rank(two_ranks):
    for said in two_ranks:
        assert said["spoiled"] == [{"is told": True, "is kept": True, "scale": None}] * 3


def test_frozen_weights_are_not_among_what_a_step_changes(make):
    network, optimizer = make()
    network.weight.requires_grad_(False)
    network.bias.grad = torch.ones_like(network.bias)
    clip_and_step(optimizer, torch.tensor(1.0), 0.0)
    places = {value.data_ptr() for value in tensors_of(optimizer).values()}
    assert network.bias.data_ptr() in places and network.weight.data_ptr() not in places
