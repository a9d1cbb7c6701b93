"""Statistics that a few bad episodes do not move."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from manyhands.data.quality.robust import (
    MIN_EPISODES,
    logarithms,
    longest_run,
    median_of_positive,
    spread,
)


def test_the_deviation_is_that_of_normal_values_whatever_a_few_others_are():
    values = np.random.default_rng(0).normal(5, 2, 1000)
    values[:50] = 1e9
    usual = spread(values, floor=0.1)
    assert usual.center == pytest.approx(5, abs=0.3)
    assert usual.deviation == pytest.approx(2, rel=0.15)
    assert usual.excess(np.array([5 + 2 * 4]))[0] == pytest.approx(4, abs=0.6)


def test_too_few_values_compare_with_nothing():
    values = np.arange(MIN_EPISODES - 1.0)
    assert np.isnan(spread(values, floor=1.0).excess(values)).all()


def test_equal_values_deviate_by_the_floor():
    assert spread(np.ones(20), floor=0.5).excess(np.array([2.0]))[0] == 2.0


@given(arrays(np.float64, (st.integers(1, 20)), elements=st.floats(width=32)))
def test_any_values_have_logarithms_and_a_spread(values):
    logs = logarithms(values)
    assert np.isnan(logs[~(values > 0)]).all()
    assert not np.isinf(spread(np.nan_to_num(values, posinf=0, neginf=0), 1.0).deviation)


def test_medians_count_only_what_is_above_zero():
    values = np.array([[0, 0, np.nan], [2, 0, np.nan], [4, 0, np.nan]])
    assert median_of_positive(values).tolist() == [3, 0, 0]


@given(st.lists(st.booleans()))
def test_the_longest_run_is_the_longest(marks):
    first, end = longest_run(np.array(marks, bool))
    assert all(marks[first:end])
    text = "".join("x" if mark else " " for mark in marks)
    assert end - first == max((len(run) for run in text.split()), default=0)
