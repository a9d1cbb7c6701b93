"""A run as one self-contained HTML page.

No scripts, no fonts, no files from elsewhere: it can be mailed, archived and opened offline.
"""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from manyhands.atomic import atomic_file
from manyhands.data.images.image_files import encode_png
from manyhands.errors import UserError
from manyhands.report.charts import draw_charts
from manyhands.report.facts import command_line, fact_groups, fact_tables, key_numbers, run_title
from manyhands.report.metrics import read_metrics, read_run

MAX_FRAMES = 8
MAX_HEIGHT = 200
GAP = 6


def filmstrip_uri(frames: Sequence[np.ndarray]) -> str:
    """Frames (height, width, 3) uint8 spread evenly over the sequence, as a PNG data URI."""
    file = encode_png(filmstrip(frames), {"pred": "mixed"})
    return f"data:image/png;base64,{b64encode(file).decode()}"


def filmstrip(frames: Sequence[np.ndarray]) -> np.ndarray:
    """At most `MAX_FRAMES` frames in a row, first and last included, with see-through gaps."""
    assert len(frames) > 0, "a filmstrip needs a frame"
    picked = np.linspace(0, len(frames) - 1, min(len(frames), MAX_FRAMES)).round().astype(int)
    shown = [_shrunk(frames[index]) for index in picked]
    height = max(frame.shape[0] for frame in shown)
    width = sum(frame.shape[1] for frame in shown) + GAP * (len(shown) - 1)
    strip = np.zeros((height, width, 4), dtype=np.uint8)
    left = 0
    for frame in shown:
        strip[: frame.shape[0], left : left + frame.shape[1], :3] = frame
        strip[: frame.shape[0], left : left + frame.shape[1], 3] = 255
        left += frame.shape[1] + GAP
    return strip


def _shrunk(frame: np.ndarray) -> np.ndarray:
    """The frame, downsampled by the integer factor that brings it to `MAX_HEIGHT` or less."""
    assert frame.dtype == np.uint8 and frame.ndim == 3 and frame.shape[2] == 3, frame.shape
    factor = -(-frame.shape[0] // MAX_HEIGHT)
    height, width = frame.shape[0] // factor, max(1, frame.shape[1] // factor)
    blocks = frame[: height * factor, : width * factor].reshape(height, factor, width, -1, 3)
    return np.asarray(blocks.mean(axis=(1, 3)).round(), dtype=np.uint8)


NEEDS_EXTRA = "report.html needs an extra. Install: pip install 'manyhands[report]'"
MOODS = {"finished": "good", "diverged": "bad", "failed": "bad"}
"""How an ending is colored, by its first word; any other is neither good nor bad."""


@dataclass(frozen=True)
class Result:
    """One line of the results table."""

    label: str
    value: str
    note: str = ""
    share: float | None = None  # Fraction between 0 and 1, drawn as a bar
    interval: tuple[float, float] | None = None  # Drawn as a whisker on the bar


@dataclass(frozen=True, kw_only=True)
class ReportExtras:
    """Content of a report beyond the run's own files."""

    title: str = ""
    lead: str = ""
    results: Sequence[Result] = ()
    filmstrips: Sequence[tuple[str, Sequence[np.ndarray]]] = ()  # Captions and frames
    next_commands: Sequence[str] = ()


NOTHING_MORE = ReportExtras()


def report_available() -> str | None:
    """None if a report can be written, else a message that says what to install."""
    try:
        for name in ("matplotlib", "jinja2"):
            import_module(name)
    except ImportError:
        return NEEDS_EXTRA
    return None


def write_report(run_dir: Path, extras: ReportExtras = NOTHING_MORE) -> Path:
    """Write `report.html` about what the run has done so far, and return its path."""
    missing = report_available()
    if missing:
        raise UserError(missing)
    if not run_dir.is_dir():
        raise UserError(f"{run_dir} is not a folder. Pass a run's --output_dir")
    target = run_dir / "report.html"
    page = _render(_content(run_dir, extras))
    with atomic_file(target) as scratch:
        scratch.write_text(page, encoding="utf-8", errors="replace")
    return target


def _content(run_dir: Path, extras: ReportExtras) -> dict[str, Any]:
    """Everything the template shows, by the names it uses."""
    run, metrics = read_run(run_dir), read_metrics(run_dir)
    ending = str(run.get("ending") or "")
    strips = [
        (caption, filmstrip_uri(frames)) for caption, frames in extras.filmstrips if len(frames)
    ]
    return {
        "title": extras.title or run_title(run, run_dir.resolve().name),
        "lead": extras.lead,
        "ending": ending,
        "mood": MOODS.get(ending.partition(":")[0], "neutral"),
        "started_at": _moment(run.get("started_at")),
        "tiles": key_numbers(run, metrics),
        "results": extras.results,
        "filmstrips": strips,
        "charts": draw_charts(metrics),
        "next_commands": extras.next_commands,
        "command": command_line(run),
        "groups": fact_groups(run),
        "tables": fact_tables(run),
        "folder": run_dir.resolve().name,
    }


def _moment(written: object) -> str:
    """A time stamp as people write it, or unchanged if it is not an ISO one."""
    try:
        moment = datetime.fromisoformat(str(written or ""))
    except ValueError:
        return str(written or "")
    return f"{moment:%Y-%m-%d %H:%M} {moment.tzname() or ''}".rstrip()


def _render(content: dict[str, Any]) -> str:
    from jinja2 import Environment, StrictUndefined

    template = files("manyhands.report").joinpath("page.html").read_text(encoding="utf-8")
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(template).render(content)
