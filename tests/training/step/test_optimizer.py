"""Optimizers."""

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from manyhands.config.sections.optim import AdamConfig, AdamWConfig, SgdConfig
from manyhands.training.step.optimizer import build_optimizer, portable_groups, restore_state


@pytest.mark.parametrize(
    ("config", "kind", "setting"),
    [
        (AdamWConfig(lr=0.1, betas=(0.5, 0.6)), torch.optim.AdamW, {"betas": (0.5, 0.6)}),
        (AdamConfig(lr=0.1, eps=1e-3), torch.optim.Adam, {"eps": 1e-3}),
        (SgdConfig(lr=0.1, momentum=0.9), torch.optim.SGD, {"momentum": 0.9}),
    ],
)
def test_each_type_builds_its_optimizer_with_its_settings(config, kind, setting):
    optimizer = build_optimizer(config, [{"params": [nn.Parameter(torch.ones(1))]}])
    assert type(optimizer) is kind
    assert optimizer.param_groups[0]["lr"] == 0.1
    assert setting.items() <= optimizer.param_groups[0].items()


def trained(optimizer_of: Callable[[Any], torch.optim.Optimizer]) -> Tensor:
    """A weight after three updates with gradients that the weight itself gives."""
    weight = nn.Parameter(torch.linspace(-2, 2, 41))
    optimizer = optimizer_of([{"params": [weight]}])
    for _ in range(3):
        (weight.sin() ** 2).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return weight.detach()


@pytest.mark.parametrize(
    "config",
    [
        AdamWConfig(lr=0.1),
        AdamConfig(lr=0.1, weight_decay=0.1),
        SgdConfig(lr=0.1, weight_decay=0.1),
        SgdConfig(lr=0.1, momentum=0.9),
        SgdConfig(lr=0.1, momentum=0.9, nesterov=True),
        SgdConfig(lr=0.1, momentum=0.9, dampening=0.5),
    ],
)
def test_kernels_that_are_fused_compute_what_others_do(config):
    plain = asdict(config)
    plain.pop("grad_clip_norm")
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}
    expected = trained(lambda groups: kind[config.type](groups, **plain, foreach=False))
    torch.testing.assert_close(trained(partial(build_optimizer, config)), expected)


@pytest.mark.parametrize(
    ("config", "fused"),
    [
        (AdamConfig(), True),
        (AdamWConfig(), True),
        (SgdConfig(momentum=0.9), True),
        (SgdConfig(momentum=0.9, dampening=0.5), None),
    ],
)
def test_kernels_are_fused_where_that_is_safe(config, fused):
    groups = [{"params": [nn.Parameter(torch.ones(2))]}, {"params": [], "lr": 0.1}]
    optimizer = build_optimizer(config, groups)
    assert [group["fused"] for group in optimizer.param_groups] == [fused, fused]
    assert [group["fused"] for group in portable_groups(optimizer, [1, 2])] == [None, None]


def saved_state(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """What a checkpoint holds of an optimizer."""
    groups = portable_groups(optimizer, [0.1] * len(optimizer.param_groups))
    return {**optimizer.state_dict(), "param_groups": groups}


def test_a_restored_state_goes_on_with_the_kernels_of_here():
    weight = nn.Parameter(torch.ones(2))
    optimizer = build_optimizer(AdamConfig(), [{"params": [weight]}])
    weight.sum().backward()
    optimizer.step()
    other = build_optimizer(AdamConfig(lr=0.5), [{"params": [weight]}])
    restore_state(other, saved_state(optimizer))
    assert (other.param_groups[0]["lr"], other.param_groups[0]["fused"]) == (0.5, True)
    assert other.state[weight]["step"] == 1
    other.step()


@pytest.mark.parametrize("config", [AdamConfig(lr=0.1), SgdConfig(lr=0.1, momentum=0.9)])
def test_a_state_from_a_file_is_laid_out_as_the_weights_are(config):
    torch.manual_seed(0)
    start = torch.randn(4, 3, 5, 5).contiguous(memory_format=torch.channels_last)
    factors = torch.arange(start.numel()).view_as(start)
    ends = []
    for through_file in (False, True):
        weight = nn.Parameter(start.clone())
        optimizer = build_optimizer(config, [{"params": [weight]}])
        for _ in range(3):
            (weight * factors).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            state = saved_state(optimizer)
            flat = {name: value.contiguous() for name, value in state["state"][0].items()}
            if through_file:
                optimizer = build_optimizer(config, [{"params": [weight]}])
                restore_state(optimizer, {**state, "state": {0: flat}})
        ends.append(weight)
    assert torch.equal(*ends)


def test_weights_that_do_not_learn_are_not_remembered():
    layer = nn.Linear(2, 2)
    layer.bias.requires_grad_(False)
    config = SgdConfig(lr=0.1, momentum=0.9)
    optimizer = build_optimizer(config, [{"params": list(layer.parameters())}])
    assert [*optimizer.state] == [layer.weight]
