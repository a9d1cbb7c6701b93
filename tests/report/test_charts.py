"""Charts are small, deterministic, and readable on light and dark pages."""

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manyhands.report.charts import COLORS, draw_charts, tick_label
from manyhands.report.metrics import Series


def series(values: list[float] | np.ndarray) -> Series:
    return Series(np.arange(1.0, len(values) + 1), np.array(values, dtype=np.float64))


def decaying(num_rows: int, floor: float = 0.01) -> Series:
    noise = np.random.default_rng(0).random(num_rows)
    return series(np.exp(-np.arange(num_rows) * 8 / num_rows) + floor * (1 + noise))


def tick_texts(svg: str) -> list[str]:
    return [text.text or "" for text in ET.fromstring(svg).iter() if text.tag.endswith("text")]


def luminance(color: str) -> float:
    channels = np.array([int(color[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize("color", COLORS)
@pytest.mark.parametrize("paper", ["#ffffff", "#1a1d22"])
def test_every_curve_color_stands_out_from_both_papers(color: str, paper: str) -> None:
    low, high = sorted([luminance(color), luminance(paper)])
    assert (high + 0.05) / (low + 0.05) >= 3


def test_the_same_numbers_draw_the_same_bytes() -> None:
    metrics = {"loss": decaying(500), "lr": series(np.linspace(0, 1e-4, 500))}
    assert draw_charts(metrics) == draw_charts(metrics)


def test_drawings_take_ink_and_font_from_the_page_and_have_no_background() -> None:
    svg = draw_charts({"loss": decaying(100)})[0].svg
    assert "fill: currentColor" in svg and "#010203" not in svg
    assert "font-family" not in svg and "<style" not in svg
    assert not re.search(r"fill: #(?!3b82c4)", svg)
    root = ET.fromstring(svg)
    assert "width" not in root.attrib and root.attrib["viewBox"] == "0 0 1000 300"


def test_ids_are_unique_over_all_charts_of_a_page() -> None:
    names = ["loss", "l1_loss", "kld_loss", "lr", "grad_norm", "update_s", "success"]
    charts = draw_charts({name: decaying(30) for name in names})
    ids = [found for chart in charts for found in re.findall(r'\bid="([^"]+)"', chart.svg)]
    assert len(ids) == len(set(ids))


def test_a_long_run_draws_a_bounded_picture() -> None:
    short, long = (len(draw_charts({"loss": decaying(rows)})[0].svg) for rows in (700, 50_000))
    assert long < 1.5 * short < 60_000


def test_a_wide_range_of_losses_gets_a_logarithmic_axis() -> None:
    assert {"0.1", "1"} <= set(tick_texts(draw_charts({"loss": decaying(500)})[0].svg))
    assert "0.75" in tick_texts(draw_charts({"loss": decaying(500, floor=0.1)})[0].svg)


def test_tiny_values_keep_their_labels() -> None:
    svg = draw_charts({"lr": series(np.linspace(0, 1e-4, 50))})[0].svg
    assert {"0", "0.0001", "5e-5"} <= set(tick_texts(svg))


def test_shares_are_labeled_in_percent_from_zero() -> None:
    chart = draw_charts({"data_wait_share": series([0.3] * 50)})[0]
    assert chart.latest == "30%"
    assert {"0%", "8%"} <= set(tick_texts(chart.svg))


def test_only_charts_of_several_curves_have_a_legend() -> None:
    loss, terms = draw_charts({name: decaying(9) for name in ("loss", "a_loss", "b_loss")})
    assert (loss.legend, loss.is_wide, terms.is_wide) == ([], True, False)
    assert terms.legend == [("a_loss", COLORS[0]), ("b_loss", COLORS[1])]


def test_values_that_cannot_be_drawn_are_told() -> None:
    chart = draw_charts({"loss": series([1.0, np.nan, np.inf, 0.5])})[0]
    assert (
        chart.note == "loss was NaN, Inf or too large to draw at 2 logged steps, first at step 2."
    )


def test_nothing_drawable_draws_nothing() -> None:
    assert draw_charts({}) == []
    assert draw_charts({"loss": series([np.nan, np.inf])}) == []


@settings(max_examples=10)
@given(values=st.lists(st.floats(), min_size=1, max_size=60))
def test_any_numbers_can_be_drawn(values: list[float]) -> None:
    charts = draw_charts({"loss": series(values), "samples_per_s": series(values)})
    assert len(charts) == (2 if len(series(values).drawable()) else 0)
    assert all(ET.fromstring(chart.svg).tag.endswith("svg") for chart in charts)


@pytest.mark.parametrize(
    ("value", "label"),
    [
        (0, "0"),
        (0.002, "0.002"),
        (1e-5, "1e-5"),
        (-3e-7, "-3e-7"),
        (250, "250"),
        (12_500, "12.5K"),
        (2.5e8, "250M"),
        (1e15, "1e15"),
    ],
)
def test_tick_labels_are_short(value: float, label: str) -> None:
    assert tick_label(value) == label
