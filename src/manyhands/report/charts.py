"""Curves as SVG that fits any width, with the numbers a script needs to make it answer.

Lines are drawn into a square that the browser stretches; strokes keep their width. Labels are text
of the page beside it, so that a chart reads the same on a phone and without scripts.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from manyhands.report.axes import (
    LOG_SPAN,
    SMALLEST,
    Axis,
    Unit,
    labels,
    linear_axis,
    log_axis,
    short,
    unit_for,
)
from manyhands.report.metrics import Series, averaged, downsampled, every_nth, smoothed

NUM_COLORS = 8
MAX_LINES = NUM_COLORS  # Further lines would repeat a color
SIDE = 1000  # Of the square that lines are drawn into
SMOOTHING = 0.03  # Fraction of a run that a mean covers until the reader chooses another
MOST_POINTS = 500
MOST_STACKED = 150  # Edges of areas are harder to follow than lines
FEWEST_POINTS = 60
ALL_POINTS = 60_000
MAX_DOTS = 40  # Up to here every point is marked
EMPTY = dict.fromkeys(("raw", "mean", "dots", "area", "filled"), "")  # Paths of a line


@dataclass(frozen=True, kw_only=True)
class Line:
    """A curve with its name and color, and the interval around it, if it has one."""

    name: str
    series: Series
    color: int = 0
    low: Series | None = None
    high: Series | None = None
    mean: Series | None = None  # What is smoothed, if points are left out of the series
    latest: float | None = None  # What was logged last, if it may be missing in the series


@dataclass(frozen=True, kw_only=True)
class Scale:
    """What the axes of a chart are about."""

    kind: str = ""  # Of the values: s, bytes, share, or a unit to write out
    is_noisy: bool = False  # Draw the values faintly behind their running mean
    may_be_log: bool = False  # Use a logarithmic axis when the values span a wide range
    from_zero: bool = False  # Start the axis at zero, for amounts whose size matters
    is_dotted: bool = True  # Mark the points of short lines
    # Draw lines, all at the same steps, on top of each other, but the last, which is their total
    is_stacked: bool = False
    along: str = "step"  # Name of the horizontal axis
    covers: tuple[float, ...] = ()  # Values on the vertical axis in any case, to compare charts
    bar_width: float = 0.0  # Draw bars of that width around the points instead of lines


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A chart before it is drawn."""

    title: str
    lines: Sequence[Line]
    scale: Scale = field(default_factory=Scale)
    note: str = ""
    is_wide: bool = False


def points_per_line(charts: Sequence[Chart]) -> int:
    """Points that each line of a page may have, so that all together fit into it."""
    num_lines = sum(len(chart.lines) for chart in charts)
    return int(np.clip(ALL_POINTS // max(1, num_lines), FEWEST_POINTS, MOST_POINTS))


def draw(chart: Chart, max_points: int) -> dict[str, Any]:
    """What the template shows of a chart, by the names it uses."""
    scale = chart.scale
    known = [line for line in chart.lines if np.isfinite(line.series.values).any()]
    lines = [_thinned(line, max_points, scale) for line in known]
    across, upward, unit = _axes(lines, scale)
    drawn = [_drawn(line, across, upward, scale) for line in lines]
    if scale.is_stacked:
        drawn = _stacked(lines, across, upward)
    return {
        "title": chart.title,
        "unit": ", ".join(filter(None, [unit.symbol, "log scale" if upward.is_log else ""])),
        "along": scale.along,
        "note": chart.note,
        "is_wide": chart.is_wide,
        "has_legend": len(lines) > 1,
        "lines": drawn,
        "latest": _latest(lines, unit) if len(lines) == 1 and scale.along == "step" else "",
        "rows": _ticks(upward, unit),
        "columns": _ticks(across, Unit()),
        "data": _data(lines, scale, (across, upward), unit),
    }


def _thinned(line: Line, max_points: int, scale: Scale) -> Line:
    """A line of bounded length."""
    max_points = min(max_points, MOST_STACKED) if scale.is_stacked else max_points
    if len(line.series) <= max_points:
        return line
    if scale.is_stacked:
        # A rare high value, such as that of a checkpoint, must neither vanish nor be repeated.
        return replace(line, series=averaged(line.series, max_points))
    if line.low and line.high:
        # What lies around a line must stay at the same steps.
        low, high = (each and every_nth(each, max_points) for each in (line.low, line.high))
        return replace(line, series=every_nth(line.series, max_points), low=low, high=high)
    # The extremes that a downsampled line consists of have another mean than all values.
    mean = averaged(line.series, max_points // 2) if scale.is_noisy else None
    return replace(line, series=downsampled(line.series, max_points), mean=mean)


def _axes(lines: Sequence[Line], scale: Scale) -> tuple[Axis, Axis, Unit]:
    """Both axes, and the unit of the vertical one, in which its ticks are round."""
    reach = scale.bar_width / 2
    steps = np.concatenate([line.series.steps for line in lines])
    values = np.concatenate([*(_extent(line) for line in lines), np.array(scale.covers)])
    if scale.is_stacked:
        values = np.concatenate([values, _tops(lines)[-1]])
    values = values[np.isfinite(values)]
    unit = unit_for(scale.kind, float(values.max()))
    across = linear_axis(float(steps.min()) - reach, float(steps.max()) + reach, 6, True)
    low, high = float(values.min()) * unit.factor, float(values.max()) * unit.factor
    return across, _upward(low, high, scale).scaled(1 / unit.factor), unit


def _upward(low: float, high: float, scale: Scale) -> Axis:
    if scale.kind == "share" and low >= 0 and high <= 100:
        return linear_axis(0.0, 100.0 if high > 50 else max(high, 5.0), 5)
    if scale.may_be_log and low >= SMALLEST and high > LOG_SPAN * low:
        return log_axis(low, high, 6)
    return linear_axis(min(low, 0.0) if scale.from_zero else low, high, 5)


def _extent(line: Line) -> np.ndarray:
    around = [each.values for each in (line.low, line.high) if each is not None]
    return np.concatenate([line.series.values, *around])


def _drawn(line: Line, across: Axis, upward: Axis, scale: Scale) -> dict[str, Any]:
    series, mean = line.series, line.mean or line.series
    if scale.bar_width:
        filled = bars(series, scale.bar_width, across, upward)
        return EMPTY | {"name": line.name, "color": _color(line), "filled": filled}
    reach = int(len(mean) * SMOOTHING / 2) if scale.is_noisy else 0
    is_dotted = scale.is_dotted and len(series) <= MAX_DOTS
    return EMPTY | {
        "name": line.name,
        "color": _color(line),
        "raw": path(series, across, upward),
        "mean": path(smoothed(mean, reach), across, upward) if reach else "",
        "dots": dots(series, across, upward) if is_dotted else "",
        "area": area(line.low, line.high, across, upward) if line.low and line.high else "",
    }


def _tops(lines: Sequence[Line]) -> list[np.ndarray]:
    """The upper edges of all stacked lines."""
    return list(np.cumsum([line.series.values for line in lines[:-1]], axis=0))


def _stacked(lines: Sequence[Line], across: Axis, upward: Axis) -> list[dict[str, Any]]:
    steps, bottom, drawn = lines[0].series.steps, np.zeros(len(lines[0].series)), []
    for line, top in zip(lines[:-1], _tops(lines), strict=True):
        edges = Series(steps, bottom), Series(steps, top)
        filled = area(*edges, across, upward)
        drawn.append(EMPTY | {"name": line.name, "color": _color(line), "filled": filled})
        bottom = top
    total = {"name": lines[-1].name, "raw": path(lines[-1].series, across, upward)}
    return [*drawn, EMPTY | total | {"color": "ink"}]


def _color(line: Line) -> str:
    return f"c{line.color % NUM_COLORS}"


def path(series: Series, across: Axis, upward: Axis) -> str:
    """A line through all points; a value that is not finite interrupts it."""
    parts, pen = [], "M"
    for x, y in _corners(series, across, upward):
        if np.isfinite(y):
            parts.append(f"{pen}{x:.1f} {y:.1f}")
        pen = "L" if np.isfinite(y) else "M"
    return "".join(parts)


def dots(series: Series, across: Axis, upward: Axis) -> str:
    """A mark at every point: a line without length, whose round ends the browser draws."""
    corners = _corners(series, across, upward)
    return "".join(f"M{x:.1f} {y:.1f}h0" for x, y in corners if np.isfinite(y))


def area(low: Series, high: Series, across: Axis, upward: Axis) -> str:
    """The space between two lines."""
    corners = [*_corners(high, across, upward), *reversed(_corners(low, across, upward))]
    return f"M{'L'.join(f'{x:.1f} {y:.1f}' for x, y in corners)}Z"


def bars(series: Series, width: float, across: Axis, upward: Axis) -> str:
    """A bar around every point, down to zero."""
    lefts = SIDE * across.places(series.steps - width / 2)
    tops = SIDE * (1 - upward.places(series.values))
    bottom, wide = (
        SIDE * (1 - float(upward.places([0.0])[0])),
        SIDE * width / (across.high - across.low),
    )
    return "".join(
        f"M{x:.1f} {bottom:.1f}V{y:.1f}h{wide:.1f}V{bottom:.1f}Z"
        for x, y in zip(lefts.tolist(), tops.tolist(), strict=True)
        if y < bottom
    )


def _corners(series: Series, across: Axis, upward: Axis) -> list[tuple[float, float]]:
    xs = SIDE * across.places(series.steps)
    ys = SIDE * (1 - upward.places(series.values))
    return list(zip(xs.tolist(), ys.tolist(), strict=True))


def _ticks(axis: Axis, unit: Unit) -> list[tuple[float, str]]:
    """Places in percent of the axis, and texts."""
    places = 100 * axis.places(axis.ticks)
    return [*zip(places.round(2).tolist(), labels(axis, unit), strict=True)]


def _latest(lines: Sequence[Line], unit: Unit) -> str:
    line = lines[0]
    value = line.series.values[-1] if line.latest is None else line.latest
    return f"{short(value * unit.factor)} {unit.symbol}".rstrip().replace(" %", "%")


def _data(
    lines: Sequence[Line], scale: Scale, axes: tuple[Axis, Axis], unit: Unit
) -> dict[str, Any]:
    """The numbers for the script of the page."""
    across, upward = axes
    return {
        "along": scale.along,
        "across": [across.low, across.high],
        "upward": [upward.low, upward.high],
        "log": upward.is_log,
        "noisy": scale.is_noisy,
        "stacked": scale.is_stacked,
        "factor": unit.factor,
        "unit": unit.symbol,
        "lines": [_numbers(line) for line in lines],
    }


def _numbers(line: Line) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": line.name,
        "color": line.color % NUM_COLORS,
        "x": _rounded(line.series.steps, 12),
        "y": _rounded(line.series.values, 6),
    }
    if line.low is not None and line.high is not None:
        found |= {"low": _rounded(line.low.values, 6), "high": _rounded(line.high.values, 6)}
    if line.mean is not None:
        found["mean"] = [_rounded(each, 6) for each in (line.mean.steps, line.mean.values)]
    return found


def _rounded(values: np.ndarray, digits: int) -> list[float | None]:
    """Numbers with as many digits as a reader sees; None for those that are not finite."""
    numbers = (float(f"{value:.{digits}g}") for value in values.tolist())
    return [_plain(each) if np.isfinite(each) else None for each in numbers]


def _plain(value: float) -> float:
    """The same number, without the decimal point of an integer."""
    return int(value) if value.is_integer() and abs(value) < 1e15 else value
