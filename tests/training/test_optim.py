"""Optimizers and schedules."""

import pytest
import torch
from torch import nn

from manyhands.config.optim import (
    AdamConfig,
    AdamWConfig,
    ConstantWithWarmupConfig,
    CosineDecayWithWarmupConfig,
    DiffuserSchedulerConfig,
    SgdConfig,
)
from manyhands.training.optim import Schedule, build_optimizer, schedule_factor


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
    curve = schedule_factor(DiffuserSchedulerConfig(num_warmup_steps=500), 2000)
    assert curve(step) == pytest.approx(factor, abs=1e-12)


def test_other_curves():
    linear = schedule_factor(DiffuserSchedulerConfig(name="linear", num_warmup_steps=0), 10)
    assert [linear(step) for step in (0, 5, 10)] == [1.0, 0.5, 0.0]
    constant = schedule_factor(ConstantWithWarmupConfig(num_warmup_steps=4), 10)
    assert [constant(step) for step in (0, 2, 4, 9)] == [0.0, 0.5, 1.0, 1.0]
    assert schedule_factor(None, 10)(7) == 1.0


def test_the_cosine_decay_shrinks_to_a_shorter_run():
    config = CosineDecayWithWarmupConfig(
        num_warmup_steps=100, num_decay_steps=1000, peak_lr=1e-3, decay_lr=1e-4
    )
    curve = schedule_factor(config, 100)
    assert curve(0) == pytest.approx(1 / 11)
    assert curve(5) == pytest.approx(1 + (1 / 11 - 1) * 0.5)
    assert curve(50) == pytest.approx(0.55)
    assert curve(100) == curve(10**6) == pytest.approx(0.1)


def test_the_first_learning_rates_of_golden_case_d6():
    curve = schedule_factor(DiffuserSchedulerConfig(num_warmup_steps=2), 10)
    rates = [1e-3 * curve(step) for step in range(5)]
    assert rates == pytest.approx([0, 5e-4, 1e-3, 9.6194e-4, 8.5355e-4], rel=1e-4)
