"""Which quantities of a run share a chart, and what is known of their axes."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from manyhands.report.charts import MAX_LINES, Chart, Line, Scale
from manyhands.report.metrics import Series
from manyhands.report.text import clipped

LEARNING, SUCCESS, SPEED, MACHINE = "learning", "success", "speed", "machine"


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One chart: its title, the names of its quantities as a pattern, and its axes."""

    title: str
    shows: str
    about: str = LEARNING  # Section of the page
    scale: Scale = field(default_factory=Scale)
    is_wide: bool = False


NOISY = Scale(is_noisy=True)
NOISY_LOG = Scale(is_noisy=True, may_be_log=True)
AMOUNT = Scale(from_zero=True)
NOISY_AMOUNT = Scale(from_zero=True, is_noisy=True)
SHARE = Scale(kind="share", from_zero=True)
NOISY_SHARE = Scale(kind="share", from_zero=True, is_noisy=True)
BYTES = Scale(kind="bytes", from_zero=True)
WATTS = Scale(kind="W", from_zero=True)
MEGAHERTZ = Scale(kind="MHz", from_zero=True)
HELD_OUT = r"(val|validation|held_out|eval)_loss(_ema)?"
PANELS = (
    Panel(title="Loss", shows=rf"loss|{HELD_OUT}", scale=NOISY_LOG, is_wide=True),
    Panel(title="Loss terms", shows=r"(?!held_out_).+_loss", scale=NOISY_LOG),
    Panel(title="Held-out loss terms", shows=r"held_out_.+_loss(_ema)?", scale=Scale()),
    Panel(title="Learning rate", shows=r"lr(_.+)?", scale=AMOUNT),
    Panel(title="Gradient norm", shows=r"grad_norm", scale=NOISY_LOG),
    Panel(title="Open-loop error", shows=r"open_loop_(error|rmse)(_ema)?", scale=AMOUNT),
    Panel(title="Open-loop error by joint", shows=r"open_loop_error(_ema)?/.+", scale=AMOUNT),
    Panel(title="Mean maximum reward", shows=r"eval_max_reward", about=SUCCESS, scale=AMOUNT),
    Panel(title="Mean sum of rewards", shows=r"eval_sum_reward", about=SUCCESS, scale=AMOUNT),
    Panel(title="Mean episode length", shows=r"eval_length", about=SUCCESS, scale=AMOUNT),
    Panel(title="Samples per second", shows=r"samples_per_s", about=SPEED, scale=NOISY_AMOUNT),
    Panel(title="Waiting for data", shows=r"data_wait_share", about=SPEED, scale=NOISY_SHARE),
    Panel(title="GPU memory", shows=r"gpu_memory_bytes", about=MACHINE, scale=BYTES),
    Panel(title="Host memory", shows=r"host_memory_bytes", about=MACHINE, scale=BYTES),
    Panel(title="Free disk space", shows=r"disk_free_bytes", about=MACHINE, scale=BYTES),
    Panel(title="GPU utilization", shows=r"gpu_utilization", about=MACHINE, scale=SHARE),
    Panel(title="GPU memory in use", shows=r"gpu_memory_share", about=MACHINE, scale=SHARE),
    Panel(title="GPU power", shows=r"gpu_power_w", about=MACHINE, scale=WATTS),
    Panel(title="GPU clock", shows=r"gpu_clock_mhz", about=MACHINE, scale=MEGAHERTZ),
)
PHASES = (
    "data_s",
    "copy_s",
    "forward_s",
    "backward_s",
    "communication_s",
    "optimizer_s",
    "logging_s",
    "checkpoint_s",
)
"""What a step consists of, in the order of a step."""
UPDATE_PHASES = ("forward_s", "backward_s", "optimizer_s")
"""What `update_s` is the sum of, where it is known in detail."""
STEP = "step_s"
BAND = ("eval_success", "eval_success_low", "eval_success_high")
DRAWN_ELSEWHERE = re.compile(
    r"eval_(success(_low|_high)?|expected_(low|high)|episodes|s)|held_out_samples|update_s|"
    + "|".join((*PHASES, STEP))
)
COUNTS_UPWARD = re.compile(r"epochs?|samples|wall_s|elapsed_s|timestamp|time")  # Straight lines
MAX_OTHERS = 8


Charts = dict[str, list[Chart]]
"""Charts by the section that shows them."""
LabeledMetrics = tuple[str, Mapping[str, Series]]
"""The metrics of a run, after its label."""


def metric_charts(metrics: Mapping[str, Series]) -> Charts:
    """The charts of one run; nothing shows up in two."""
    drawable = {name: metrics[name].drawable() for name in worth_drawing(metrics)}
    charts = _with_success([("", metrics)])
    for panel, names in panels(drawable):
        shown = names[:MAX_LINES]
        lines = [_line(clipped(name, 80), metrics[name], place) for place, name in enumerate(shown)]
        notes = [*(_gap(name, metrics[name]) for name in shown), _more(names[MAX_LINES:])]
        charts[panel.about].append(_chart(panel, lines, notes))
    phases = phase_chart(metrics)
    charts[SPEED] += [phases] if phases else []
    return charts


def compared_charts(runs: Sequence[LabeledMetrics]) -> Charts:
    """The charts of several runs: one quantity each, one line per run."""
    names = dict.fromkeys(name for _, metrics in runs for name in worth_drawing(metrics))
    charts = _with_success(runs)
    for panel, members in panels(names):
        for name in members[:MAX_LINES]:
            is_alone = name == "loss" or len(members) == 1
            title = panel.title if is_alone else clipped(name, 80)
            own = replace(panel, title=title, is_wide=name == "loss")
            charts[panel.about].append(_compared_chart(own, name, runs))
    for label, metrics in runs:
        phases = phase_chart(metrics)
        if phases:
            charts[SPEED].append(replace(phases, title=f"{phases.title}: {label}"))
    return charts


def _with_success(runs: Sequence[LabeledMetrics]) -> Charts:
    """No charts yet, but that of success, if it was measured."""
    charts: Charts = {about: [] for about in (LEARNING, SUCCESS, SPEED, MACHINE)}
    success = success_chart(runs)
    charts[SUCCESS] += [success] if success else []
    return charts


def _compared_chart(panel: Panel, name: str, runs: Sequence[LabeledMetrics]) -> Chart:
    """One quantity of all runs that have it; a run has the same color in all charts."""
    lines = [
        _line(label, metrics[name], place)
        for place, (label, metrics) in enumerate(runs)
        if name in metrics and len(metrics[name].drawable())
    ]
    gaps = [_gap(f"{label}: {name}", own[name]) for label, own in runs if name in own]
    return _chart(panel, lines, gaps)


def _line(name: str, series: Series, color: int) -> Line:
    return Line(name=name, series=series.drawable(), color=color, latest=float(series.values[-1]))


def _chart(panel: Panel, lines: list[Line], notes: Iterable[str]) -> Chart:
    note = " ".join(each for each in notes if each)
    return Chart(
        title=panel.title, lines=lines, scale=panel.scale, note=note, is_wide=panel.is_wide
    )


def worth_drawing(metrics: Mapping[str, Series]) -> list[str]:
    """Names of the quantities that a chart shows something of: no zeros, none drawn already."""
    firsts = _first_alike(metrics)
    chosen = [
        name
        for name in sorted(metrics, key=_rank)
        if np.any(metrics[name].drawable().values != 0) and firsts[name] == name
    ]
    # Waiting is one of the phases, where those are known.
    return [name for name in chosen if name != "data_wait_share" or "data_s" not in metrics]


def _first_alike(metrics: Mapping[str, Series]) -> dict[str, str]:
    """For each quantity the first one with the same points, which may be itself."""
    by_content: dict[bytes, str] = {}
    names = sorted(metrics, key=_rank)
    return {name: by_content.setdefault(metrics[name].content, name) for name in names}


def _rank(name: str) -> tuple[bool, bool, str]:
    """A key that sorts the losses of training and of held-out episodes first."""
    return name != "loss", not re.fullmatch(HELD_OUT, name), name


def omitted(metrics: Mapping[str, Series]) -> str:
    """A sentence on the quantities without a chart of their own, and why."""
    zeros, twins, firsts = [], [], _first_alike(metrics)
    for name, series in metrics.items():
        values = series.drawable().values
        if DRAWN_ELSEWHERE.fullmatch(name) or not len(values):
            continue
        if not np.any(values != 0):
            zeros.append(clipped(name, 80))
        elif firsts[name] != name:
            twins.append(f"{clipped(name, 80)} equals {clipped(firsts[name], 80)}")
    parts = [f"Zero throughout: {', '.join(zeros[:MAX_OTHERS])}." if zeros else ""]
    parts += [f"{'; '.join(twins[:MAX_OTHERS])}." if twins else ""]
    return " ".join(filter(None, parts))


def panels(names: Iterable[str]) -> list[tuple[Panel, list[str]]]:
    """The charts for these quantities, the most looked-at first; none shows up in two."""
    shown: dict[str, list[str]] = {panel.title: [] for panel in PANELS}
    others = []
    for name in sorted(names, key=_rank):
        if DRAWN_ELSEWHERE.fullmatch(name) or COUNTS_UPWARD.fullmatch(name):
            continue
        home = next((panel for panel in PANELS if re.fullmatch(panel.shows, name)), None)
        if home:
            shown[home.title].append(name)
        else:
            others.append(name)
    known = [(panel, shown[panel.title]) for panel in PANELS if shown[panel.title]]
    return known + [(_other(name), [name]) for name in others[:MAX_OTHERS]]


def _other(name: str) -> Panel:
    kind = "s" if name.endswith("_s") and not name.endswith("_per_s") else ""
    kind = "bytes" if name.endswith("_bytes") else "share" if name.endswith("_share") else kind
    title = clipped(name.replace("_", " ").capitalize(), 80)
    return Panel(title=title, shows="", scale=Scale(kind=kind, is_noisy=True))


def success_chart(runs: Sequence[LabeledMetrics]) -> Chart | None:
    """Success with its interval, one line per run."""
    lines = []
    for place, (label, metrics) in enumerate(runs):
        success, *band = (metrics[name].drawable() if name in metrics else None for name in BAND)
        if success:
            is_complete = all(each and np.array_equal(each.steps, success.steps) for each in band)
            low, high = band if is_complete else (None, None)
            name = label or "success"
            lines.append(Line(name=name, series=success, color=place, low=low, high=high))
    if not lines:
        return None
    note = "Bands: 95 % intervals." if any(line.low for line in lines) else ""
    return Chart(title="Success", lines=lines, scale=SHARE, note=note, is_wide=True)


def phase_chart(metrics: Mapping[str, Series]) -> Chart | None:
    """Seconds of a step by phase on top of each other, and the complete step as a line."""
    if STEP not in metrics:
        return None
    is_detailed = any(name in metrics for name in UPDATE_PHASES)
    names = [*PHASES] if is_detailed else [PHASES[0], "update_s", *PHASES[1:]]
    total = _warm(metrics[STEP].drawable())
    known = {name: _aligned(metrics[name], total.steps) for name in names if name in metrics}
    shown = {name: series for name, series in known.items() if np.any(series.values != 0)}
    if not shown:
        return None
    titles = {"update_s": "compute"}
    lines = [
        Line(name=titles.get(name, name.removesuffix("_s")), series=series, color=place)
        for place, (name, series) in enumerate(shown.items())
    ]
    lines.append(Line(name="complete step", series=total, color=len(lines)))
    note = "Each phase is that of the slowest rank, without the first row, which includes warm-up."
    beside = " Copies to the GPU run beside the others." if "copy_s" in shown else ""
    scale = Scale(kind="s", from_zero=True, is_stacked=True)
    return Chart(title="Time of a step by phase", lines=lines, scale=scale, note=note + beside)


def _warm(series: Series) -> Series:
    """The rows after the first, if there are others."""
    return Series(series.steps[1:], series.values[1:]) if len(series) > 1 else series


def _aligned(series: Series, steps: np.ndarray) -> Series:
    """A phase at all steps: a row without it, such as one without a checkpoint, has zero of it."""
    values, drawable = np.zeros(len(steps)), series.drawable()
    _, places, own = np.intersect1d(steps, drawable.steps, return_indices=True)
    values[places] = drawable.values[own]
    return Series(steps, values)


def _gap(name: str, series: Series) -> str:
    """A sentence on the points that could not be drawn."""
    lost = series.not_drawable()
    if not len(lost):
        return ""
    rows = "1 logged step" if len(lost) == 1 else f"{len(lost):,} logged steps"
    where = f"{rows}, first at step {lost.steps[0]:,.0f}"
    return f"{clipped(name, 200)} was NaN, Inf or too large to draw at {where}."


def _more(names: list[str]) -> str:
    return f"{len(names)} more are in metrics.jsonl." if names else ""
