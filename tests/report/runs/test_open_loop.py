"""Predicted and recorded actions of an open-loop evaluation."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from page_runs import write_open_loop

from manyhands.report.runs.open_loop import (
    charts_of_all,
    error_charts,
    error_table,
    find_open_loop,
    trace_charts,
)


def test_errors_are_shown_by_joint_over_all_and_by_time_ahead(tmp_path: Path) -> None:
    write_open_loop(tmp_path / "open_loop")
    (result,) = find_open_loop(tmp_path)
    table = error_table(result)
    assert [row.cells for row in table.rows] == [[name, "0.1", "0.1"] for name in ("x", "y", "all")]
    assert table.note == "3 predictions; episodes: held out of training."
    (chart,) = error_charts(result)
    assert [line.name for line in chart.lines] == ["x", "y"]
    assert chart.lines[0].series.steps[-1] == pytest.approx(0.9)


def test_chunks_lie_where_they_were_predicted_with_gaps_between(tmp_path: Path) -> None:
    write_open_loop(tmp_path / "open_loop")
    charts = trace_charts(find_open_loop(tmp_path)[0])
    assert [chart.title for chart in charts] == ["Episode 3: x", "Episode 3: y"]
    recorded, predicted = (line.series for line in charts[0].lines)
    assert len(recorded) == 40 and np.isnan(predicted.values).sum() == 3
    is_there = np.isfinite(predicted.values)
    there = (predicted.steps[is_there] * 10).round().astype(int)
    assert there.tolist() == list(range(30))
    assert np.allclose(predicted.values[is_there] - recorded.values[:30], 0.1)


def test_charts_of_several_evaluations_name_theirs(tmp_path: Path) -> None:
    for name in ("first", "second"):
        write_open_loop(tmp_path / name)
    results = find_open_loop(tmp_path, "run a, ")
    assert [chart.title for chart in charts_of_all(results, error_charts)] == [
        "Mean absolute error by time ahead (run a, first)",
        "Mean absolute error by time ahead (run a, second)",
    ]
    titles = [chart.title for chart in charts_of_all(results, trace_charts)]
    assert titles[1:3] == ["Episode 3: y (run a, first)", "Episode 3: x (run a, second)"]
    assert charts_of_all(results[:1], trace_charts)[0].title == "Episode 3: x"


@pytest.mark.parametrize(
    "traces",
    [
        None,
        {},
        {"fps": 0, "joints": ["x"], "episodes": [{}]},
        {"fps": 1e-300, "joints": ["x"], "episodes": [{"recorded": [[1], [2]]}]},
        {"fps": float("nan"), "joints": ["x"], "episodes": [{}]},
        {"fps": 10, "joints": ["x"], "episodes": [{"recorded": [["a"]], "chunks": [3]}]},
        {"fps": 10, "joints": "x", "episodes": "y"},
        {
            "fps": 10,
            "joints": ["x"],
            "episodes": [{"recorded": [[1e40]], "chunks": [{"first": []}]}],
        },
    ],
)
def test_damaged_files_show_less(tmp_path: Path, traces: Any) -> None:
    ahead = [{}, {"seconds": float("nan"), "joints": {"x": {"mean_absolute_error": 1}}}]
    errors = {"joints": [{"name": "x"}, 3], "time_ahead": ahead}
    (tmp_path / "open_loop.json").write_text(json.dumps(errors))
    if traces is not None:
        (tmp_path / "open_loop_traces.json").write_text(json.dumps(traces))
    (result,) = find_open_loop(tmp_path)
    assert trace_charts(result) == error_charts(result) == []
    assert [row.cells for row in error_table(result).rows] == [["x", "", ""], ["all", "", ""]]


def test_a_run_without_open_loop_evaluations_has_none(tmp_path: Path) -> None:
    assert find_open_loop(tmp_path) == []
