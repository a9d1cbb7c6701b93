"""Metrics are read complete or not, and thinning and smoothing keep what a reader looks for."""

import json
import math
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from manyhands.report.metrics import (
    LARGEST_DRAWN,
    Series,
    averaged,
    downsampled,
    every_nth,
    read_metrics,
    read_run,
    smoothed,
)

VALUES = arrays(np.float64, st.integers(1, 3000), elements=st.floats(-1e6, 1e6, width=32))


def series(values: np.ndarray) -> Series:
    return Series(np.arange(len(values), dtype=np.float64), values)


@given(values=VALUES, max_points=st.integers(9, 700))
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
    assert downsampled(short, 600) is averaged(short, 600) is every_nth(short, 600) is short


@given(values=VALUES, reach=st.integers(0, 100))
def test_means_stay_between_the_extremes_and_start_at_the_first_value(
    values: np.ndarray, reach: int
) -> None:
    mean = smoothed(series(values), reach)
    slack = 1e-9 * np.abs(values).max()
    assert mean.values.min() >= values.min() - slack
    assert mean.values.max() <= values.max() + slack
    assert mean.values[0] == values[0]
    assert len(mean) == len(values)


def test_a_straight_line_is_its_own_mean_except_near_the_end() -> None:
    line = series(np.arange(1200.0))
    mean = smoothed(line, 20)
    inner = mean.steps < 1150
    assert np.allclose(mean.values[inner], mean.steps[inner])


def test_smoothing_quiets_noise() -> None:
    noise = series(np.random.default_rng(0).normal(size=3000))
    assert smoothed(noise, 50).values[50:].std() < 0.3


def test_a_spike_leaves_the_means_after_it_exact() -> None:
    values = np.full(600, 0.1)
    values[50] = 1e25
    assert np.allclose(smoothed(series(values), 10).values[100:], 0.1)


def test_averages_of_stretches_keep_the_mean_of_all() -> None:
    noise = series(np.random.default_rng(0).normal(size=3000))
    few = averaged(noise, 300)
    assert len(few) == 300 and np.isclose(few.values.mean(), noise.values.mean())


def test_gaps_survive_thinning_and_separate_what_they_separated() -> None:
    values = np.where(np.arange(3000) % 100 == 99, np.nan, np.arange(3000.0))
    thin = downsampled(series(values), 300)
    assert np.isnan(thin.values).sum() == 30
    assert len(thin) <= 300


def test_points_that_are_spread_evenly_keep_both_ends() -> None:
    few = every_nth(series(np.arange(1000.0)), 50)
    assert len(few) == 50 and (few.steps[0], few.steps[-1]) == (0, 999)
    assert len(set(np.diff(few.steps))) <= 2


def test_equal_points_have_equal_content() -> None:
    values = np.array([1.0, np.nan, 2.0])
    assert series(values).content == series(values.copy()).content
    assert series(values).content != series(values[:2]).content


def test_every_point_is_either_drawable_or_not() -> None:
    values = np.array([1.0, np.nan, -np.inf, 2.0, LARGEST_DRAWN, -2e30])
    both = series(values)
    assert list(both.drawable().steps) == [0, 3]
    assert list(both.not_drawable().steps) == [1, 2, 4, 5]


def write_metrics(run_dir: Path, *lines: str) -> None:
    (run_dir / "metrics.jsonl").write_text("\n".join(lines), encoding="utf-8")


def test_columns_hold_only_the_steps_that_logged_them(tmp_path: Path) -> None:
    write_metrics(
        tmp_path,
        '{"step": 10, "loss": 2, "lr": 0.1}',
        '{"step": 20, "loss": 1.5}',
        '{"step": 30, "lr": 0.2}',
    )
    metrics = read_metrics(tmp_path)
    assert list(metrics["loss"].steps) == [10, 20]
    assert list(metrics["loss"].values) == [2, 1.5]
    assert list(metrics["lr"].steps) == [10, 30]


def test_a_torn_last_line_costs_only_itself(tmp_path: Path) -> None:
    write_metrics(tmp_path, '{"step": 1, "loss": 1.0}', '{"step": 2, "lo')
    assert list(read_metrics(tmp_path)["loss"].steps) == [1]


def test_steps_made_again_after_a_resume_count_once_with_their_last_value(tmp_path: Path) -> None:
    rows = [{"step": step, "loss": value} for step, value in [(1, 9), (2, 8), (3, 7), (2, 5)]]
    write_metrics(tmp_path, *map(json.dumps, rows))
    loss = read_metrics(tmp_path)["loss"]
    assert list(loss.steps) == [1, 2, 3]
    assert list(loss.values) == [9, 5, 7]


def test_rows_of_one_step_are_joined(tmp_path: Path) -> None:
    write_metrics(tmp_path, '{"step": 5, "loss": 1.0}', '{"step": 5, "val_loss": 2.0}')
    assert {name: list(series.steps) for name, series in read_metrics(tmp_path).items()} == {
        "loss": [5],
        "val_loss": [5],
    }


def test_non_finite_values_are_kept_as_such(tmp_path: Path) -> None:
    write_metrics(tmp_path, '{"step": 1, "loss": NaN}', '{"step": 2, "loss": -Infinity}')
    values = read_metrics(tmp_path)["loss"].values
    assert math.isnan(values[0]) and values[1] == -np.inf


@pytest.mark.parametrize(
    "line",
    [
        "",
        "null",
        "[1, 2]",
        "{}",
        '{"loss": 1.0}',
        '{"step": NaN, "loss": 1}',
        '{"step": -1, "a": 1}',
        '{"step": "7", "loss": 1.0}',
        '{"step": 1, "loss": "low", "ok": true, "none": null}',
        '{"step": 1' + "0" * 400 + ', "loss": 1}',
        '{"step": 1, "loss": ' + "[" * 100_000,
    ],
)
def test_lines_without_a_step_or_numbers_add_nothing(tmp_path: Path, line: str) -> None:
    write_metrics(tmp_path, line)
    assert read_metrics(tmp_path) == {}


def test_a_long_run_takes_little_more_memory_than_its_numbers(tmp_path: Path) -> None:
    num_rows, names = 20_000, [f"term_{place}_loss" for place in range(8)]
    with (tmp_path / "metrics.jsonl").open("w") as file:
        for step in range(num_rows):
            file.write(json.dumps({"step": step} | dict.fromkeys(names, step / 7)) + "\n")
    tracemalloc.start()
    metrics = read_metrics(tmp_path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert all(len(metrics[name]) == num_rows for name in names)
    assert peak < 1.5 * sum(each.steps.nbytes + each.values.nbytes for each in metrics.values())


def test_absent_files_read_as_empty(tmp_path: Path) -> None:
    assert read_metrics(tmp_path) == {}
    assert read_run(tmp_path) == {}


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '{"a": 1}}', "[" * 100_000])
def test_an_unreadable_run_file_reads_as_empty(tmp_path: Path, text: str) -> None:
    (tmp_path / "run.json").write_text(text)
    assert read_run(tmp_path) == {}


def test_a_run_file_keeps_what_it_says(tmp_path: Path) -> None:
    run = {"command": ["manyhands", "train"], "batch": {"effective": 64}, "new": [1]}
    (tmp_path / "run.json").write_text(json.dumps(run))
    assert read_run(tmp_path) == run


@given(content=st.binary(max_size=200))
def test_no_bytes_break_the_readers(
    content: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    run_dir = tmp_path_factory.mktemp("run")
    (run_dir / "metrics.jsonl").write_bytes(b'{"step": 1, "loss": 2}\n' + content)
    (run_dir / "run.json").write_bytes(content)
    assert 1 in read_metrics(run_dir)["loss"].steps
    assert isinstance(read_run(run_dir), dict)
