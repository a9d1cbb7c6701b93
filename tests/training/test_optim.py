"""Optimizers and schedules."""

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from manyhands.config.optim import (
    SCHEDULE_CURVES,
    AdamConfig,
    AdamWConfig,
    ConstantWithWarmupConfig,
    CosineAnnealingWithWarmupConfig,
    CosineDecayWithWarmupConfig,
    DiffuserSchedulerConfig,
    SgdConfig,
)
from manyhands.training.optim import (
    Schedule,
    build_optimizer,
    portable_state,
    restore_state,
    schedule_factor,
)


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
    assert [group["fused"] for group in portable_state(optimizer)["param_groups"]] == [None, None]


def test_a_restored_state_goes_on_with_the_kernels_of_here():
    weight = nn.Parameter(torch.ones(2))
    optimizer = build_optimizer(AdamConfig(), [{"params": [weight]}])
    weight.sum().backward()
    optimizer.step()
    other = build_optimizer(AdamConfig(lr=0.5), [{"params": [weight]}])
    restore_state(other, portable_state(optimizer))
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
            state = portable_state(optimizer)
            flat = {name: value.contiguous() for name, value in state["state"][0].items()}
            if through_file:
                optimizer = build_optimizer(config, [{"params": [weight]}])
                restore_state(optimizer, {**state, "state": {0: flat}})
        ends.append(weight)
    assert torch.equal(*ends)


def test_a_group_keeps_its_own_learning_rate_and_the_schedule_scales_both():
    groups = [
        {"params": [nn.Parameter(torch.ones(1))]},
        {"params": [nn.Parameter(torch.ones(1))], "lr": 0.01},
    ]
    optimizer = build_optimizer(AdamWConfig(lr=0.1), groups)
    schedule = Schedule(optimizer, lambda step: 0.5**step)
    assert schedule.apply(1) == 0.05
    assert [group["lr"] for group in optimizer.param_groups] == [0.05, 0.005]


@pytest.mark.parametrize(
    ("step", "factor"), [(0, 0.0), (1, 0.002), (250, 0.5), (500, 1.0), (1250, 0.5), (2000, 0.0)]
)
def test_the_cosine_is_lerobots(step, factor):
    curve = schedule_factor(DiffuserSchedulerConfig(num_warmup_steps=500), 2000, 1e-3)
    assert curve(step) == pytest.approx(factor, abs=1e-12)


CURVES = {
    "linear": (0, 1 / 3, 1, 4 / 7, 1 / 7, 0),
    "cosine": (0, 1 / 3, 1, 0.611260467, 0.049515566, 0),
    "cosine_with_restarts": (0, 1 / 3, 1, 0.611260467, 0.049515566, 0),
    "polynomial": (0, 1 / 3, 1, 0.571471429, 0.142942857, 0.0001),
    "constant": (1, 1, 1, 1, 1, 1),
    "constant_with_warmup": (0, 1 / 3, 1, 1, 1, 1),
}
"""Factors of diffusers after 0, 1, 3, 6, 9 and 10 of 10 updates, 3 of them of warm-up."""


@pytest.mark.parametrize("name", SCHEDULE_CURVES)
def test_every_curve_is_that_of_diffusers(name):
    curve = schedule_factor(DiffuserSchedulerConfig(name=name, num_warmup_steps=3), 10, 1e-3)
    factors = [curve(step) for step in (0, 1, 3, 6, 9, 10)]
    assert factors == pytest.approx(CURVES[name], abs=1e-9)


def test_the_annealing_cosine_is_the_cosine():
    one = schedule_factor(CosineAnnealingWithWarmupConfig(num_warmup_steps=3), 10, 1e-3)
    other = schedule_factor(DiffuserSchedulerConfig(num_warmup_steps=3), 10, 1e-3)
    assert [one(step) for step in range(11)] == [other(step) for step in range(11)]


def test_other_curves():
    linear = schedule_factor(DiffuserSchedulerConfig(name="linear", num_warmup_steps=0), 10, 1e-3)
    assert [linear(step) for step in (0, 5, 10)] == [1.0, 0.5, 0.0]
    constant = schedule_factor(ConstantWithWarmupConfig(num_warmup_steps=4), 10, 1e-3)
    assert [constant(step) for step in (0, 2, 4, 9)] == [0.0, 0.5, 1.0, 1.0]
    assert schedule_factor(None, 10, 1e-3)(7) == 1.0


def test_the_cosine_decay_shrinks_to_a_shorter_run():
    config = CosineDecayWithWarmupConfig(
        num_warmup_steps=100, num_decay_steps=1000, peak_lr=1e-3, decay_lr=1e-4
    )
    curve = schedule_factor(config, 100, 1e-3)
    assert curve(0) == pytest.approx(1 / 11)
    assert curve(5) == pytest.approx(1 + (1 / 11 - 1) * 0.5)
    assert curve(50) == pytest.approx(0.55)
    assert curve(100) == curve(10**6) == pytest.approx(0.1)


def test_the_first_learning_rates_of_golden_case_d6():
    curve = schedule_factor(DiffuserSchedulerConfig(num_warmup_steps=2), 10, 1e-3)
    rates = [1e-3 * curve(step) for step in range(5)]
    assert rates == pytest.approx([0, 5e-4, 1e-3, 9.6194e-4, 8.5355e-4], rel=1e-4)
