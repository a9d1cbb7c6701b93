"""Noise schedules against their definitions and LeRobot's numbers."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyhands.config.policies.diffusion import BETA_SCHEDULES, DiffusionConfig
from manyhands.policies.diffusion.sampler import alpha_bars, betas

SCHEDULES = BETA_SCHEDULES["DDPM"]


def test_the_default_schedule_has_lerobots_numbers():
    taken, left = betas(DiffusionConfig()), alpha_bars(DiffusionConfig())
    assert taken[[0, 50, 99]] == pytest.approx([6.3128158e-4, 0.031546339, 0.999], rel=1e-7)
    expected = [0.99936873, 0.96671665, 0.47826457, 2.428572e-4, 2.4285e-7]
    assert left[[0, 10, 50, 98, 99]] == pytest.approx(expected, rel=2e-5)
    assert left[[0, 10, 50]] == pytest.approx(expected[:3], rel=2e-8)


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("linear", [0.1, 0.2, 0.3, 0.4, 0.5]),
        ("scaled_linear", [(0.1**0.5 + i / 4 * (0.5**0.5 - 0.1**0.5)) ** 2 for i in range(5)]),
        ("sigmoid", [0.1 + 0.4 / (1 + math.exp(-x)) for x in (-6, -3, 0, 3, 6)]),
    ],
)
def test_schedules_between_two_betas_follow_their_definition(schedule, expected):
    config = DiffusionConfig(
        beta_schedule=schedule, num_train_timesteps=5, beta_start=0.1, beta_end=0.5
    )
    assert betas(config) == pytest.approx(expected, rel=1e-6)
    assert alpha_bars(config) == pytest.approx(np.cumprod(1 - np.array(expected)), rel=1e-6)


def test_the_laplace_schedule_follows_its_signal_to_noise_ratio():
    left = alpha_bars(DiffusionConfig(beta_schedule="laplace", num_train_timesteps=1000))
    first = math.sqrt(1000 / 1001)
    for time in (0.1, 0.3, 0.5, 0.8):
        half = 2 * time if time <= 0.5 else 2 * (1 - time)
        ratio = half ** (-0.5 if time <= 0.5 else 0.5)
        expected = math.sqrt(ratio / (1 + ratio)) / first
        assert left[round(1000 * time) - 1] == pytest.approx(expected, rel=1e-4)


@given(st.sampled_from(SCHEDULES), st.integers(1, 300), st.floats(1e-5, 0.2), st.floats(0, 0.5))
def test_every_step_takes_a_part_of_what_is_left(schedule, num_steps, first, more):
    config = DiffusionConfig(
        beta_schedule=schedule,
        num_train_timesteps=num_steps,
        beta_start=first,
        beta_end=first + more,
    )
    taken, left = betas(config), alpha_bars(config)
    assert taken.shape == left.shape == (num_steps,)
    assert taken.dtype == left.dtype == np.float32
    assert ((taken > 0) & (taken < 1)).all()
    # So little may be left that a step from it cannot be written down anymore.
    falls, is_normal = np.diff(left, prepend=1) < 0, left > np.finfo(np.float32).tiny
    assert falls[is_normal].all() and (np.diff(left) <= 0).all() and left[-1] >= 0
