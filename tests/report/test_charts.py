"""Charts hold the numbers of a run, fit any width, and stay small."""

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from page_runs import PageReader

from manyhands.report.charts import (
    FEWEST_POINTS,
    MOST_POINTS,
    SIDE,
    Chart,
    Line,
    Scale,
    draw,
    points_per_line,
)
from manyhands.report.metrics import Series
from manyhands.report.page import fragment, resource


def series(values: list[float] | np.ndarray) -> Series:
    return Series(np.arange(1.0, len(values) + 1), np.array(values, dtype=np.float64))


def decaying(num_rows: int, floor: float = 0.01) -> Series:
    noise = np.random.default_rng(0).random(num_rows)
    return series(np.exp(-np.arange(num_rows) * 8 / num_rows) + floor * (1 + noise))


def drawn(*lines: Series, **scale: Any) -> dict[str, Any]:
    named = [
        Line(name=f"line {place}", series=each, color=place) for place, each in enumerate(lines)
    ]
    return draw(Chart(title="Loss", lines=named, scale=Scale(**scale)), MOST_POINTS)


def corners(path: str) -> np.ndarray:
    return np.array([[float(x) for x in each.split()] for each in re.split("[ML]", path)[1:]])


def luminance(color: str) -> float:
    channels = np.array([int(color[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def test_every_color_stands_out_from_its_paper() -> None:
    light, dark = resource("page.css").split("@media (prefers-color-scheme: dark)")[:2]
    for scheme in (light, dark):
        paper, *colors = re.findall(r"--(?:paper|c\d|quiet|accent): (#[0-9a-f]{6})", scheme)
        for color in colors[:10]:
            low, high = sorted([luminance(color), luminance(paper)])
            assert (high + 0.05) / (low + 0.05) >= 3, color


def test_a_line_goes_through_its_values() -> None:
    chart = drawn(series([0.0, 5.0, 10.0]))
    assert corners(chart["lines"][0]["raw"]).tolist() == [
        [0, SIDE],
        [SIDE / 2, SIDE / 2],
        [SIDE, 0],
    ]
    assert [text for _, text in chart["rows"]] == ["0", "2", "4", "6", "8", "10"]
    assert chart["latest"] == "10"


def test_the_numbers_for_the_script_are_those_of_the_run() -> None:
    loss = decaying(300)
    (line,) = drawn(loss, is_noisy=True)["data"]["lines"]
    assert line["x"] == loss.steps.tolist()
    assert np.allclose(line["y"], loss.values, rtol=1e-5)


def test_a_long_run_keeps_its_extremes_and_the_mean_of_all_its_values() -> None:
    noise = np.random.default_rng(0).random(50_000)
    noise[31_234] = 9.0
    chart = drawn(series(noise), is_noisy=True)
    (line,) = chart["data"]["lines"]
    assert max(line["y"]) == 9 and len(line["y"]) <= MOST_POINTS
    assert np.isclose(np.mean(line["mean"][1]), noise.mean(), atol=1e-3)
    assert chart["lines"][0]["mean"] and not chart["lines"][0]["dots"]


def test_only_noisy_lines_with_enough_points_are_smoothed() -> None:
    assert drawn(decaying(100), is_noisy=True)["lines"][0]["mean"]
    assert not drawn(decaying(100))["lines"][0]["mean"]
    few = drawn(decaying(20), is_noisy=True)["lines"][0]
    assert not few["mean"] and few["dots"].count("M") == 20


def test_a_logarithmic_axis_is_marked_as_such() -> None:
    wide = drawn(decaying(500), may_be_log=True)
    assert wide["unit"] == "log scale" and {"0.1", "1"} <= {text for _, text in wide["rows"]}
    assert drawn(decaying(500, floor=0.2), may_be_log=True)["unit"] == ""


def test_units_are_written_beside_the_title() -> None:
    shares = drawn(series([0.3] * 50), kind="share")
    assert (shares["unit"], shares["latest"]) == ("%", "30%")
    seconds = drawn(series([0.004, 0.008]), kind="s", from_zero=True)
    assert (seconds["unit"], seconds["latest"]) == ("ms", "8 ms")
    assert seconds["rows"][0] == (0, "0")


def test_ticks_are_round_in_their_unit() -> None:
    memory = drawn(series([2.0**36] * 3), kind="bytes", from_zero=True)
    assert [text for _, text in memory["rows"]] == ["0", "20", "40", "60", "80"]
    assert memory["unit"] == "GiB" and memory["data"]["upward"] == [0, 80 * 2**30]


def test_an_interval_is_an_area_around_its_line() -> None:
    low, middle, high = (series([value, value]) for value in (0.25, 0.5, 0.75))
    line = Line(name="success", series=middle, low=low, high=high)
    chart = draw(Chart(title="Success", lines=[line], scale=Scale(kind="share")), 100)
    area = corners(chart["lines"][0]["area"].rstrip("Z"))
    raw = corners(chart["lines"][0]["raw"])
    assert area[:, 1].min() < raw[:, 1].min() <= raw[:, 1].max() < area[:, 1].max()
    assert chart["data"]["lines"][0]["low"] == [0.25, 0.25]


def test_stacked_lines_lie_on_top_of_each_other_below_their_total() -> None:
    one, two, total = (series([value] * 3) for value in (1.0, 2.0, 4.0))
    chart = drawn(one, two, total, is_stacked=True, from_zero=True)
    first, second, whole = chart["lines"]
    heights = [sorted(set(corners(each["filled"].rstrip("Z"))[:, 1])) for each in (first, second)]
    assert heights[0] == [SIDE - SIDE / 4, SIDE] and heights[1] == [SIDE / 4, SIDE - SIDE / 4]
    assert set(corners(whole["raw"])[:, 1]) == {0} and whole["color"] == "ink"


def test_a_rare_high_value_of_a_long_stack_neither_vanishes_nor_grows() -> None:
    usual, total = np.full(4000, 0.1), np.full(4000, 0.1)
    rare = np.zeros(4000)
    rare[[7, 1011, 3333]] = 0.5
    chart = drawn(*map(series, (usual, rare, total + rare)), is_stacked=True, from_zero=True)
    low, high, whole = (np.array(line["y"]) for line in chart["data"]["lines"])
    assert np.count_nonzero(high) == 3 and np.isclose(high.mean(), rare.mean(), rtol=0.05)
    assert np.allclose(low + high, whole, rtol=1e-4)


def test_a_value_that_is_not_finite_interrupts_a_line() -> None:
    chart = drawn(series([1.0, np.nan, 2.0, 3.0]))
    assert chart["lines"][0]["raw"].count("M") == 2
    assert chart["data"]["lines"][0]["y"] == [1, None, 2, 3]


def test_many_lines_have_fewer_points_each() -> None:
    def charts(number: int) -> list[Chart]:
        return [Chart(title="", lines=[Line(name="", series=decaying(9))] * 8)] * number

    assert points_per_line(charts(1)) == MOST_POINTS
    assert FEWEST_POINTS < points_per_line(charts(40)) < MOST_POINTS
    assert points_per_line(charts(1000)) == FEWEST_POINTS


def test_only_charts_of_several_lines_have_a_legend() -> None:
    html = fragment("charts", {"charts": [drawn(decaying(9))], "note": "", "has_controls": False})
    assert "legend" not in html
    two = drawn(decaying(9), decaying(8))
    page = PageReader(fragment("charts", {"charts": [two], "note": "", "has_controls": False}))
    assert "line 0" in page.text and "line 1" in page.text and "step" in page.text


def test_the_same_numbers_draw_the_same_chart() -> None:
    assert drawn(decaying(700), is_noisy=True) == drawn(decaying(700), is_noisy=True)


@settings(max_examples=40)
@given(
    values=st.lists(st.floats(-1e29, 1e29), min_size=1, max_size=60),
    may_be_log=st.booleans(),
    from_zero=st.booleans(),
    kind=st.sampled_from(["", "s", "bytes", "share"]),
)
@example(values=[1.0, 5e-324], may_be_log=True, from_zero=False, kind="")
@example(values=[1.0, 1e-290], may_be_log=True, from_zero=False, kind="bytes")
def test_any_numbers_can_be_drawn(
    values: list[float], may_be_log: bool, from_zero: bool, kind: str
) -> None:
    chart = drawn(series(values), may_be_log=may_be_log, from_zero=from_zero, kind=kind)
    points = corners(chart["lines"][0]["raw"])
    assert points.shape == (len(values), 2)
    assert points.min() >= -1 and points.max() <= SIDE + 1


@pytest.mark.parametrize("values", [[0.0], [0.0, 0.0], [1e-300, 1e-300], [-5.0] * 3])
def test_lines_without_any_height_are_drawn_too(values: list[float]) -> None:
    points = corners(drawn(series(values))["lines"][0]["raw"])
    assert np.isfinite(points).all()


def test_bars_stand_around_their_points_on_zero() -> None:
    line = drawn(Series(np.array([1.0, 3.0]), np.array([4.0, 2.0])), bar_width=2.0, from_zero=True)
    assert (
        line["lines"][0]["filled"]
        == "M0.0 1000.0V0.0h500.0V1000.0ZM500.0 1000.0V500.0h500.0V1000.0Z"
    )
    assert line["data"]["across"] == [0, 4] and line["lines"][0]["raw"] == ""


def test_an_axis_covers_what_it_is_asked_to() -> None:
    low, high = drawn(series([1.0, 2.0]), covers=(-5.0, 10.0))["data"]["upward"]
    assert low <= -5 and high >= 10
