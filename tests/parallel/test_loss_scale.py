"""The scale that losses of fp16 runs are multiplied by."""

import pytest
import torch
from torch import nn
from torch.nn.utils import get_total_norm

from manyhands.parallel.loss_scale import LossScale
from manyhands.parallel.optimizer_step import gradients_of

CPU = torch.device("cpu")
OPTIMIZERS = {
    "fused": lambda weights: torch.optim.AdamW(weights, lr=0.1, fused=True),
    "sgd": lambda weights: torch.optim.SGD(weights, lr=0.1, momentum=0.9, fused=True),
    "not fused": lambda weights: torch.optim.SGD(weights, lr=0.1, momentum=0.9, fused=False),
}


@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize("max_norm", [0.0, 0.5])
def test_it_follows_torchs_scaler_through_growth_and_overflow(
    no_host_synchronization, kind, max_norm
):
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)
    (ours, theirs), scale = (linear() for _ in range(2)), LossScale(scaler, CPU)
    own, other = (OPTIMIZERS[kind](network.parameters()) for network in (ours, theirs))
    for factor in (1.0, 1.0, torch.inf, 2.0, torch.nan, 1.0, 1.0, 1.0):
        with no_host_synchronization():
            scale.backward(loss_of(ours) * factor)
            norm = scale.step(own, get_total_norm(gradients_of(own)), max_norm)
        scaler.scale(loss_of(theirs) * factor).backward()
        scaler.unscale_(other)
        limit = max_norm or torch.inf
        torch.testing.assert_close(
            norm, nn.utils.clip_grad_norm_(theirs.parameters(), limit), equal_nan=True
        )
        scaler.step(other)
        scaler.update()
        own.zero_grad()
        other.zero_grad()
        assert scale.state_dict() == scaler.state_dict()
        for one, another in zip(ours.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(one, another, rtol=1e-5, atol=1e-6)


def linear() -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(3, 2)


def loss_of(network: nn.Module) -> torch.Tensor:
    return network(torch.tensor([[3.0, 0.0, 4.0]])).square().sum()


def test_nothing_is_scaled_without_it():
    scale, network = LossScale(None, CPU), linear()
    scale.backward(network.weight.sum())
    assert not scale.is_used
    assert scale.tensors == []
    assert network.weight.grad.eq(1).all()
    scale.load_state_dict({"scale": 2.0})
    assert scale.state_dict() == {}


def test_a_saved_scale_is_continued_with_and_belongs_to_one_engine():
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    one, other = LossScale(scaler, CPU), LossScale(scaler, CPU)
    one.load_state_dict({**one.state_dict(), "scale": 2.0})
    assert (one.state_dict()["scale"], other.state_dict()["scale"]) == (2.0, 1024.0)
    one.load_state_dict({})
    assert one.state_dict()["scale"] == 2.0
