"""Curves of a run as SVG that takes its ink from the page around it.

Text and grid are drawn in a stand-in color that becomes `currentColor`, on no background, so the
same chart reads on light and dark pages. The page adds titles and legends.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from io import StringIO
from typing import TYPE_CHECKING

import numpy as np

from manyhands.report.metrics import Series, downsampled, smoothed
from manyhands.units import count

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One chart: its title, whose quantities it shows and what their axis may do."""

    title: str
    shows: str  # Pattern of the names of its quantities
    is_noisy: bool = True  # Draw the values faintly behind their running mean
    may_be_log: bool = False  # Use a logarithmic axis when the values span a wide range
    from_zero: bool = False  # Start the axis at zero, for amounts whose size matters
    is_share: bool = False  # Label the axis in percent
    is_wide: bool = False  # Give the chart the width of the page


PANELS = (
    Panel(
        title="Loss",
        shows=r"loss|(val|validation|held_out|eval)_loss",
        may_be_log=True,
        is_wide=True,
    ),
    Panel(title="Loss terms", shows=r".+_loss", may_be_log=True),
    Panel(title="Learning rate", shows=r"lr(_.+)?", is_noisy=False, from_zero=True),
    Panel(title="Gradient norm", shows=r"grad_norm", may_be_log=True),
    Panel(title="Samples per second", shows=r"samples_per_s", from_zero=True),
    Panel(title="Waiting for data", shows=r"data_wait_share", from_zero=True, is_share=True),
    Panel(title="Seconds per step", shows=r"(?!.*_per_s$|wall_s$|elapsed_s$).+_s", from_zero=True),
)
COUNTS_UPWARD = re.compile(r"epochs?|samples|wall_s|elapsed_s|timestamp|time")  # Straight lines
MAX_OTHERS = 8


def panels(names: Iterable[str]) -> list[tuple[Panel, list[str]]]:
    """The charts for these quantities, the most looked-at first; none shows up in two."""
    shown: dict[Panel, list[str]] = {panel: [] for panel in PANELS}
    others = []
    for name in sorted(names, key=lambda name: (name != "loss", name)):
        home = next((panel for panel in PANELS if re.fullmatch(panel.shows, name)), None)
        if home:
            shown[home].append(name)
        elif not COUNTS_UPWARD.fullmatch(name):
            others.append(name)
    known = [(panel, members) for panel, members in shown.items() if members]
    titles = {name: name.replace("_", " ").capitalize() for name in others[:MAX_OTHERS]}
    return known + [(Panel(title=titles[name], shows=re.escape(name)), [name]) for name in titles]


COLORS = ("#3b82c4", "#c9752b", "#2f9c86", "#a06cd5", "#cf5064", "#7c8796")
"""Mid-tones: each contrasts with white and with near-black."""
INK = "#010203"
"""Becomes the page's text color."""
WIDE_SIZE = (1000, 300)
SMALL_SIZE = (500, 230)
TRIMS = (
    (r"<style.*?</style>", ""),
    (r"font-family: [^;]*; ", ""),
    (r' (width|height)="[^"]*pt"', ""),
    (r'<g id="[^"]*"', "<g"),
    (r'(?<=[ "])(\d+\.\d{2})\d+', r"\1"),
    (r"\s*\n\s*", "\n"),
)  # Rewritings that leave font and size to the page, keep ids unique and drop needless digits
LOG_SPAN = 30  # Ratio of values from which a logarithmic axis shows more
FEW_POINTS = 40  # Up to here every point is marked and a running mean would hide more than it shows


@dataclass(frozen=True)
class Chart:
    """A drawn panel with its texts on the page."""

    title: str
    svg: str
    legend: list[tuple[str, str]]  # Name and color of each curve; empty if the title suffices
    latest: str
    note: str
    is_wide: bool


def draw_charts(metrics: Mapping[str, Series]) -> list[Chart]:
    """One chart per group of related quantities that has anything to draw."""
    drawable = {name: series.drawable() for name, series in metrics.items()}
    return [
        _chart(panel, {name: metrics[name] for name in names})
        for panel, names in panels(name for name, series in drawable.items() if len(series))
    ]


def tick_label(value: float) -> str:
    """A number short enough for an axis: 0.002, 1e-5, 250, 20K."""
    if 1e4 <= abs(value) < 1e12:
        return count(value).replace(".0", "")
    return re.sub(r"e([+-])0*", lambda match: "e" + match[1].strip("+"), f"{value:.4g}")


def _chart(panel: Panel, metrics: Mapping[str, Series]) -> Chart:
    colors = [COLORS[index % len(COLORS)] for index in range(len(metrics))]
    legend = list(zip(metrics, colors, strict=True))
    first = next(iter(metrics.values())).drawable()
    latest = (smoothed(first) if panel.is_noisy else first).values[-1]
    return Chart(
        title=panel.title,
        svg=_draw(panel, [series.drawable() for series in metrics.values()], colors),
        legend=legend if len(legend) > 1 else [],
        latest=_label(panel, float(f"{latest:.3g}")) if len(legend) == 1 or panel.is_wide else "",
        note=" ".join(filter(None, (_gap(name, series) for name, series in metrics.items()))),
        is_wide=panel.is_wide,
    )


def _label(panel: Panel, value: float) -> str:
    return f"{tick_label(100 * value)}%" if panel.is_share else tick_label(value)


def _gap(name: str, series: Series) -> str:
    """A sentence on the points that could not be drawn."""
    lost = series.not_drawable()
    if not len(lost):
        return ""
    rows = "1 logged step" if len(lost) == 1 else f"{len(lost):,} logged steps"
    return (
        f"{name} was NaN, Inf or too large to draw at {rows}, first at step {lost.steps[0]:,.0f}."
    )


def _draw(panel: Panel, curves: list[Series], colors: list[str]) -> str:
    from matplotlib.figure import Figure
    from matplotlib.style import context

    width, height = WIDE_SIZE if panel.is_wide else SMALL_SIZE
    # The salt enters the element ids: one per title keeps them apart on a page of many charts.
    style = {"svg.fonttype": "none", "svg.hashsalt": ascii(panel.title), "font.size": 11.5}
    with context(["default", style]):
        figure = Figure(figsize=(width / 72, height / 72), dpi=72)
        axes = figure.subplots()
        figure.subplots_adjust(58 / width, 26 / height, 1 - 10 / width, 1 - 10 / height)
        for series, color in zip(curves, colors, strict=True):
            _draw_curve(axes, series, color, panel.is_noisy)
        _scale(axes, panel, curves)
        _quiet(axes)
        return _inline_svg(figure)


def _draw_curve(axes: "Axes", series: Series, color: str, is_noisy: bool) -> None:
    if len(series) <= FEW_POINTS:
        axes.plot(series.steps, series.values, color=color, linewidth=1.6, marker="o", markersize=3)
        return
    raw = downsampled(series)
    if not is_noisy:
        axes.plot(raw.steps, raw.values, color=color, linewidth=1.8)
        return
    mean = smoothed(series)
    axes.plot(raw.steps, raw.values, color=color, linewidth=0.8, alpha=0.35)
    axes.plot(mean.steps, mean.values, color=color, linewidth=1.8, solid_capstyle="round")


def _scale(axes: "Axes", panel: Panel, curves: list[Series]) -> None:
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

    values = np.concatenate([series.values for series in curves])
    low, high = values.min(), values.max()
    axes.margins(x=0.015)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    axes.xaxis.set_major_formatter(lambda value, _: tick_label(value))
    axes.yaxis.set_major_locator(MaxNLocator(nbins=5))
    if panel.may_be_log and low > 0 and high > LOG_SPAN * low:
        axes.set_yscale("log")
        steps = (1.0, 3.0) if high < 300 * low else (1.0,)
        axes.yaxis.set_major_locator(LogLocator(subs=steps, numticks=6))
        axes.yaxis.set_minor_locator(NullLocator())
    elif panel.from_zero and low >= 0:
        axes.set_ylim(0, 1.08 * max(high, 0.05 if panel.is_share else 1e-30))
    axes.yaxis.set_major_formatter(lambda value, _: _label(panel, value))


def _quiet(axes: "Axes") -> None:
    """Leave only what helps to read a value off: short labels and a faint grid."""
    axes.patch.set_visible(False)
    axes.spines[:].set_visible(False)
    axes.grid(axis="y", color=INK, alpha=0.12, linewidth=1)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, pad=6, labelcolor=INK)
    for line in axes.lines:
        line.set_clip_on(False)


def _inline_svg(figure: "Figure") -> str:
    text = StringIO()
    metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    figure.savefig(text, format="svg", transparent=True, metadata=metadata)
    svg = text.getvalue()
    svg = svg[svg.index("<svg") :].replace(INK, "currentColor")
    for pattern, replacement in TRIMS:
        svg = re.sub(pattern, replacement, svg)
    return svg
