"""Thinning and smoothing keep what a reader looks for."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from manyhands.report.metrics import LARGEST_DRAWN, Series, downsampled, smoothed

VALUES = arrays(np.float64, st.integers(1, 3000), elements=st.floats(-1e6, 1e6, width=32))


def series(values: np.ndarray) -> Series:
    return Series(np.arange(len(values), dtype=np.float64), values)


@given(values=VALUES, max_points=st.integers(4, 700))
def test_thinning_keeps_ends_extremes_and_order_within_the_limit(
    values: np.ndarray, max_points: int
) -> None:
    thin = downsampled(series(values), max_points)
    assert len(thin) <= max_points or len(thin) == len(values) <= max_points
    assert (thin.steps[0], thin.steps[-1]) == (0, len(values) - 1)
    assert (thin.values.min(), thin.values.max()) == (values.min(), values.max())
    assert np.all(np.diff(thin.steps) > 0)
    assert np.array_equal(values[thin.steps.astype(int)], thin.values)


def test_short_series_are_not_thinned() -> None:
    short = series(np.arange(600.0))
    assert downsampled(short) is short


@given(values=VALUES)
def test_means_stay_between_the_extremes_and_start_at_the_first_value(values: np.ndarray) -> None:
    mean = smoothed(series(values))
    slack = 1e-9 * np.abs(values).max()
    assert mean.values.min() >= values.min() - slack
    assert mean.values.max() <= values.max() + slack
    assert mean.values[0] == values[0]
    assert len(mean) <= 300


def test_a_straight_line_is_its_own_mean_except_near_the_end() -> None:
    line = series(np.arange(1200.0))
    mean = smoothed(line)
    inner = mean.steps < 1150
    assert np.allclose(mean.values[inner], mean.steps[inner])


def test_smoothing_quiets_noise() -> None:
    noise = series(np.random.default_rng(0).normal(size=3000))
    assert smoothed(noise).values[10:].std() < 0.3


def test_a_spike_leaves_the_means_after_it_exact() -> None:
    values = np.full(600, 0.1)
    values[50] = 1e25
    assert np.allclose(smoothed(series(values)).values[100:], 0.1)


def test_every_point_is_either_drawable_or_not() -> None:
    values = np.array([1.0, np.nan, -np.inf, 2.0, LARGEST_DRAWN, -2e30])
    both = series(values)
    assert list(both.drawable().steps) == [0, 3]
    assert list(both.not_drawable().steps) == [1, 2, 4, 5]
