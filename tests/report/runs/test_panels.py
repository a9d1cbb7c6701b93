"""Which quantities are seen together, and which not at all."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from page_runs import metric_rows

from manyhands.report.charts import MAX_LINES, Chart, draw
from manyhands.report.metrics import Series, columns
from manyhands.report.runs.panels import (
    LEARNING,
    MACHINE,
    MAX_OTHERS,
    SPEED,
    SUCCESS,
    compared_charts,
    metric_charts,
    omitted,
    panels,
    phase_chart,
)


def titles(*names: str) -> dict[str, list[str]]:
    return {panel.title: members for panel, members in panels(names)}


def series(*values: float) -> Series:
    return Series(np.arange(1.0, len(values) + 1), np.array(values))


def named(charts: list[Chart]) -> list[str]:
    return [chart.title for chart in charts]


def test_the_trainers_quantities_find_their_charts_in_reading_order() -> None:
    names = ["grad_norm", "lr", "l1_loss", "kld_loss", "held_out_loss", "loss", "samples_per_s"]
    shown = titles(*names, "data_wait_share", "held_out_l1_loss", "open_loop_error/x")
    assert list(shown.items()) == [
        ("Loss", ["loss", "held_out_loss"]),
        ("Loss terms", ["kld_loss", "l1_loss"]),
        ("Held-out loss terms", ["held_out_l1_loss"]),
        ("Learning rate", ["lr"]),
        ("Gradient norm", ["grad_norm"]),
        ("Open-loop error by joint", ["open_loop_error/x"]),
        ("Samples per second", ["samples_per_s"]),
        ("Waiting for data", ["data_wait_share"]),
    ]


def test_a_run_has_charts_about_learning_success_speed_and_machine() -> None:
    charts = metric_charts(columns(metric_rows(100)))
    assert named(charts[LEARNING]) == ["Loss", "Learning rate", "Gradient norm"]
    assert named(charts[SUCCESS]) == ["Success", "Mean maximum reward"]
    assert named(charts[SPEED]) == ["Samples per second", "Time of a step by phase"]
    assert named(charts[MACHINE]) == ["GPU memory", "GPU utilization"]


def test_zeros_and_repetitions_are_named_instead_of_drawn() -> None:
    metrics = columns(metric_rows(100))
    shown = [line.name for chart in metric_charts(metrics)[LEARNING] for line in chart.lines]
    assert "num_skipped" not in shown and "l1_loss" not in shown
    assert omitted(metrics) == "Zero throughout: num_skipped. l1_loss equals loss."
    assert omitted({"loss": series(1.0, 2.0)}) == ""


def test_success_has_its_interval() -> None:
    (line,) = metric_charts(columns(metric_rows(100)))[SUCCESS][0].lines
    assert line.low is not None and line.high is not None
    assert line.low.values[0] == 0.3 and line.high.values[0] == 0.7


def test_phases_are_those_known_in_the_order_of_a_step() -> None:
    chart = phase_chart(columns(metric_rows(10)))
    assert chart is not None
    names = [line.name for line in chart.lines]
    assert names == ["data", "forward", "backward", "optimizer", "complete step"]


def test_a_run_without_detailed_phases_shows_its_compute() -> None:
    chart = phase_chart({"step_s": series(0.1), "data_s": series(0.01), "update_s": series(0.08)})
    assert chart is not None
    assert [line.name for line in chart.lines] == ["data", "compute", "complete step"]
    warm = phase_chart({"step_s": series(9.0, 0.1, 0.2), "data_s": series(5.0, 0.01, 0.02)})
    assert warm is not None
    assert [line.series.values.tolist() for line in warm.lines] == [[0.01, 0.02], [0.1, 0.2]]
    assert phase_chart({"step_s": series(0.1)}) is None


def test_a_checkpoint_takes_time_only_in_its_own_rows() -> None:
    saved = {20: 0.5, 60: 0.25}
    rows = [
        {"step": step, "step_s": 0.1, "forward_s": 0.08}
        | ({"step_s": 0.1 + saved[step], "checkpoint_s": saved[step]} if step in saved else {})
        for step in range(10, 100, 10)
    ]
    chart = phase_chart(columns(rows))
    assert chart is not None
    forward, checkpoint, total = (line.series for line in chart.lines)
    for each in (forward, checkpoint, total):
        assert each.steps.tolist() == [*range(20, 100, 10)]
    seen = dict(zip(checkpoint.steps.tolist(), checkpoint.values.tolist(), strict=True))
    assert seen == {step: saved.get(step, 0.0) for step in range(20, 100, 10)}
    assert np.all(forward.values + checkpoint.values <= total.values)


def test_several_runs_share_one_chart_per_quantity() -> None:
    one, other = {"loss": series(3.0, 2.0)}, {"loss": series(4.0, 1.0), "lr": series(0.1, 0.2)}
    loss, lr = compared_charts([("a", one), ("b", other)])[LEARNING]
    assert [(line.name, line.color) for line in loss.lines] == [("a", 0), ("b", 1)]
    assert [(line.name, line.color) for line in lr.lines] == [("b", 1)]


def test_values_that_cannot_be_drawn_are_named() -> None:
    (chart,) = metric_charts({"loss": series(1.0, np.nan, np.inf, 0.5)})[LEARNING]
    assert (
        chart.note == "loss was NaN, Inf or too large to draw at 2 logged steps, first at step 2."
    )


def test_the_last_value_of_a_chart_is_the_last_one_logged() -> None:
    diverged = {"loss": series(1.0, 0.5, np.nan)}
    for charts in (metric_charts(diverged), compared_charts([("a", diverged), ("b", {})])):
        assert draw(charts[LEARNING][0], 100)["latest"] == "NaN"


def test_nothing_drawable_draws_nothing() -> None:
    for metrics in ({}, {"loss": series(np.nan, np.inf)}):
        assert not any(metric_charts(metrics).values())


def test_quantities_that_only_count_upward_get_none() -> None:
    assert titles("epoch", "samples", "wall_s", "elapsed_s", "timestamp", "eval_episodes") == {}


def test_a_flood_of_quantities_is_cut_and_counted() -> None:
    assert len(panels(f"probe_{index}" for index in range(100))) == MAX_OTHERS
    terms = {f"{index}_loss": series(index + 1.0) for index in range(100)}
    (chart,) = metric_charts(terms)[LEARNING]
    assert len(chart.lines) == MAX_LINES and chart.note == "92 more are in metrics.jsonl."


@given(names=st.lists(st.text(min_size=1), unique=True))
def test_no_quantity_is_shown_twice_and_no_chart_is_empty(names: list[str]) -> None:
    shown = [members for _, members in panels(names)]
    flat = [name for members in shown for name in members]
    assert all(shown) and len(flat) == len(set(flat)) and set(flat) <= set(names)
