"""Learning-rate schedules."""

import pytest
import torch
from torch import nn

from manyhands.config.sections.optim import (
    SCHEDULE_CURVES,
    ConstantWithWarmupConfig,
    CosineAnnealingWithWarmupConfig,
    CosineDecayWithWarmupConfig,
    DiffuserSchedulerConfig,
)
from manyhands.training.step.lr_schedule import LrSchedule, schedule_factor


def test_a_group_keeps_its_own_learning_rate_and_the_schedule_scales_both():
    groups = [
        {"params": [nn.Parameter(torch.ones(1))]},
        {"params": [nn.Parameter(torch.ones(1))], "lr": 0.01},
    ]
    optimizer = torch.optim.AdamW(groups, lr=0.1)
    schedule = LrSchedule(optimizer, lambda step: 0.5**step)
    schedule.apply(1)
    assert schedule.current[0] == 0.05
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
