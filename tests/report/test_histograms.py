"""Histograms count every value once."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from manyhands.report.charts import draw
from manyhands.report.histograms import MAX_BARS, histogram

NUMBERS = st.lists(st.floats(-1e6, 1e6) | st.integers(-5, 5).map(float), min_size=1, max_size=60)


@given(NUMBERS)
@example([0.0, 5e-324])
@example([1.0, 1.0 + 2e-16, 1.0 + 4e-16])
def test_bars_are_few_and_hold_all_values(values: list[float]) -> None:
    chart = histogram("x", np.array(values), "value", "frames")
    assert chart is not None
    (line,) = chart.lines
    assert line.series.values.sum() == len(values) and len(line.series) <= MAX_BARS
    drawn = draw(chart, MAX_BARS)
    assert drawn["lines"][0]["filled"].count("Z") == (line.series.values > 0).sum()


def test_few_integers_have_a_bar_each() -> None:
    chart = histogram("done", np.array([False, True, False]), "value", "frames")
    assert chart is not None
    assert chart.lines[0].series.steps.tolist() == [0, 1]
    assert chart.lines[0].series.values.tolist() == [2, 1]


@pytest.mark.parametrize("value", [0.0, -3.0, 0.25, 1e29])
def test_a_constant_is_one_bar_in_the_middle(value: float) -> None:
    chart = histogram("x", np.full(9, value), "value", "frames")
    assert chart is not None
    series = chart.lines[0].series
    place = int(series.values.argmax())
    assert series.values[place] == 9 and np.isclose(series.steps[place], value)
    assert 0 < place < len(series) - 1


@pytest.mark.parametrize("values", [[], [np.nan, np.inf], [1e300]])
def test_nothing_to_draw_is_no_chart(values: list[float]) -> None:
    assert histogram("x", np.array(values), "value", "frames") is None
