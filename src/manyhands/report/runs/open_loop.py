"""Predicted against recorded actions, from the files of an open-loop evaluation."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from manyhands.evaluation.action_errors import ABSOLUTE, SQUARED
from manyhands.evaluation.open_loop_run import ERRORS_FILE, TRACES_FILE
from manyhands.report.axes import short
from manyhands.report.charts import MAX_LINES, Chart, Line, Scale
from manyhands.report.metrics import LARGEST_DRAWN, Series, is_number, read_object
from manyhands.report.runs.evaluations import files_named
from manyhands.report.tables import Column, Table, TableRow
from manyhands.report.text import clipped

MAX_JOINTS = 8
MAX_EVALUATIONS = 4
MAX_SECONDS = 1e9  # Times and frames beyond these are damaged
LEAST_FPS, MAX_FPS = 1e-3, 1e6


@dataclass(frozen=True)
class OpenLoopResult:
    """The errors of an evaluation, and the episodes it traced."""

    label: str
    errors: Mapping[str, Any]
    traces: Mapping[str, Any]


def find_open_loop(run_dir: Path, prefix: str = "") -> list[OpenLoopResult]:
    """The open-loop evaluations below a run directory."""
    found = []
    for file in files_named(run_dir, ERRORS_FILE)[:MAX_EVALUATIONS]:
        name = clipped(file.parent.name if file.parent != run_dir else "this folder", 80)
        label = f"{prefix}{name}"
        errors = read_object(file)
        if errors:
            found.append(OpenLoopResult(label, errors, read_object(file.parent / TRACES_FILE)))
    return found


def error_table(result: OpenLoopResult) -> Table:
    """Errors by joint and over all."""
    joints = _rows(result.errors.get("joints"))[:MAX_JOINTS]
    listed = [*joints, {**result.errors, "name": "all"}]
    rows = [
        TableRow(
            [clipped(row.get("name", ""), 80), *(_number(row, key) for key in (ABSOLUTE, SQUARED))]
        )
        for row in listed
    ]
    columns = [
        Column("joint"),
        Column("mean absolute error", True),
        Column("root mean square error", True),
    ]
    samples, which = result.errors.get("num_samples"), result.errors.get("episodes_are")
    note = f"{samples} predictions; episodes: {clipped(which, 200)}." if samples and which else ""
    return Table(title=result.label, columns=columns, rows=rows, note=note)


def error_charts(result: OpenLoopResult) -> list[Chart]:
    """The error over the time ahead, by joint, if it is known."""
    names = [str(row.get("name")) for row in _rows(result.errors.get("joints"))][:MAX_LINES]
    found = {name: _errors_ahead(result, name) for name in names}
    lines = [
        Line(name=clipped(name, 80), series=series, color=place)
        for place, (name, series) in enumerate(found.items())
        if len(series)
    ]
    scale = Scale(from_zero=True, along="seconds ahead")
    chart = Chart(title="Mean absolute error by time ahead", lines=lines, scale=scale)
    return [chart] if lines else []


def charts_of_all(
    results: Sequence[OpenLoopResult], charts_of: Callable[[OpenLoopResult], Sequence[Chart]]
) -> list[Chart]:
    """The charts of all evaluations; if there are several, titles name them."""
    return [
        chart if len(results) == 1 else replace(chart, title=f"{chart.title} ({each.label})")
        for each in results
        for chart in charts_of(each)
    ]


def _errors_ahead(result: OpenLoopResult, joint: str) -> Series:
    points = []
    for row in _rows(result.errors.get("time_ahead")):
        joints = row.get("joints")
        own = joints.get(joint) if isinstance(joints, dict) else None
        error, seconds = own.get(ABSOLUTE) if isinstance(own, dict) else None, row.get("seconds")
        if is_number(error) and is_number(seconds) and 0 <= seconds < MAX_SECONDS:
            points.append((float(seconds), float(error)))
    return Series(*np.array(points).reshape(-1, 2).T).drawable()


def trace_charts(result: OpenLoopResult) -> list[Chart]:
    """Every joint of the traced episodes: recorded, and predicted chunk by chunk."""
    names, fps = result.traces.get("joints"), result.traces.get("fps")
    if not isinstance(names, list) or not is_number(fps) or not LEAST_FPS < fps < MAX_FPS:
        return []
    charts = []
    for trace in _rows(result.traces.get("episodes")):
        for joint, name in enumerate(names[:MAX_JOINTS]):
            lines = [
                Line(name="recorded", series=_recorded(trace, joint, fps), color=6),
                Line(name="predicted", series=_predicted(trace, joint, fps), color=0),
            ]
            if all(len(line.series) for line in lines):
                title = f"Episode {trace.get('episode')}: {clipped(name, 80)}"
                charts.append(
                    Chart(title=title, lines=lines, scale=Scale(along="seconds", is_dotted=False))
                )
    return charts


def _recorded(trace: Mapping[str, Any], joint: int, fps: float) -> Series:
    values = _column(trace.get("recorded"), joint)
    return Series(np.arange(len(values)) / fps, values).drawable()


def _predicted(trace: Mapping[str, Any], joint: int, fps: float) -> Series:
    """All chunks as one line, interrupted between them."""
    steps, values = [], []
    for chunk in _rows(trace.get("chunks")):
        first, own = chunk.get("first"), _column(chunk.get("actions"), joint)
        if is_number(first) and 0 <= first < MAX_SECONDS and len(own):
            times = (first + np.arange(len(own))) / fps
            steps += [*times, times[-1]]
            values += [*own, np.nan]
    return Series(np.array(steps), np.array(values))


def _column(rows: object, joint: int) -> np.ndarray:
    """The values of a joint in rows of actions, as far as they are numbers."""
    listed = rows if isinstance(rows, list) else []
    values = [row[joint] for row in listed if isinstance(row, list) and joint < len(row)]
    numbers = [float(value) if is_number(value) else np.nan for value in values]
    return np.array([value if abs(value) < LARGEST_DRAWN else np.nan for value in numbers])


def _rows(value: object) -> Sequence[Mapping[str, Any]]:
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def _number(row: Mapping[str, Any], key: str) -> str:
    return short(float(row[key])) if is_number(row.get(key)) else ""
