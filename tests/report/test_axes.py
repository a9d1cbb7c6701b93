"""Axes hold their values, and their labels can be read."""

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from manyhands.report.axes import Axis, Unit, labels, linear_axis, log_axis, short, unit_for

NUMBERS = st.floats(-1e29, 1e29)


@given(one=NUMBERS, other=NUMBERS, is_tight=st.booleans())
@example(one=0.0, other=5e-324, is_tight=False)
def test_a_linear_axis_holds_its_values_with_few_distinct_labels(
    one: float, other: float, is_tight: bool
) -> None:
    low, high = sorted([one, other])
    axis = linear_axis(low, high, 5, is_tight)
    places = axis.places([low, high])
    assert -1e-6 <= places[0] <= places[1] <= 1 + 1e-6
    texts = labels(axis, Unit())
    assert len(texts) == len(axis.ticks) <= 8 and len(set(texts)) == len(texts)
    assert is_tight or len(texts) >= 2


@given(low=st.floats(1e-29, 1e29), ratio=st.floats(15, 1e20))
def test_a_log_axis_holds_its_values_and_labels_at_least_its_middle(
    low: float, ratio: float
) -> None:
    assume(low * ratio < 1e30)
    axis = log_axis(low, low * ratio, 6)
    places = axis.places([low, low * ratio])
    assert -1e-6 <= places[0] < places[1] <= 1 + 1e-6
    assert 1 <= len(axis.ticks) <= 6


def test_equal_distances_on_a_log_axis_are_equal_ratios() -> None:
    places = Axis(1, 100, (1, 10, 100), is_log=True).places([1, 10, 100])
    assert np.allclose(places, [0, 0.5, 1])


def test_a_scaled_axis_has_its_values_at_the_same_places() -> None:
    axis = linear_axis(0, 9, 5)
    assert np.allclose(axis.scaled(2**30).places([3 * 2**30]), axis.places([3]))
    assert axis.scaled(10).ticks == tuple(10 * tick for tick in axis.ticks)


@pytest.mark.parametrize(
    ("kind", "largest", "unit"),
    [
        ("s", 0.3, Unit(1e3, "ms")),
        ("s", 3.0, Unit(1, "s")),
        ("share", 0.5, Unit(100, "%")),
        ("bytes", 2**33, Unit(2.0**-30, "GiB")),
        ("bytes", 2**22, Unit(2.0**-20, "MiB")),
        ("W", 300, Unit(1, "W")),
        ("", 7, Unit(1, "")),
    ],
)
def test_a_unit_suits_its_values(kind: str, largest: float, unit: Unit) -> None:
    assert unit_for(kind, largest) == unit


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.002, "0.002"),
        (1e-5, "1e-5"),
        (-3e-7, "-3e-7"),
        (250, "250"),
        (1500, "1500"),
        (12_500, "12.5K"),
        (999_999, "1M"),
        (2.5e8, "250M"),
        (1e15, "1e15"),
    ],
)
def test_numbers_are_short(value: float, text: str) -> None:
    assert short(value) == text
