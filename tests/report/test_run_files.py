"""Reading what a run left behind, whole or not."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyhands.report.metrics import read_metrics, read_run


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
    ],
)
def test_lines_without_a_step_or_numbers_add_nothing(tmp_path: Path, line: str) -> None:
    write_metrics(tmp_path, line)
    assert read_metrics(tmp_path) == {}


def test_absent_files_read_as_empty(tmp_path: Path) -> None:
    assert read_metrics(tmp_path) == {}
    assert read_run(tmp_path) == {}


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '{"a": 1}}'])
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
