"""A run as one self-contained HTML page.

No scripts, no fonts, no files from elsewhere: it can be mailed, archived and opened offline.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from manyhands.atomic import whole_file
from manyhands.errors import UserError
from manyhands.report.curves import draw_charts
from manyhands.report.facts import command_line, fact_groups, fact_tables
from manyhands.report.headline import tiles_of, title_of
from manyhands.report.pictures import filmstrip_uri
from manyhands.report.run_files import read_metrics, read_run

NEEDS_EXTRA = "report.html needs an extra. Install: pip install 'manyhands[report]'"
MOODS = {"finished": "good", "diverged": "bad", "failed": "bad"}
"""How an ending is colored, by its first word; any other is neither good nor bad."""


@dataclass(frozen=True)
class Result:
    """One line of the results table."""

    label: str
    value: str
    note: str = ""
    share: float | None = None
    """Fraction between 0 and 1, drawn as a bar."""
    interval: tuple[float, float] | None = None
    """Confidence interval of the fraction, drawn as a whisker on the bar."""


@dataclass(frozen=True, kw_only=True)
class ReportExtras:
    """Content of a report beyond the run's own files."""

    title: str = ""
    lead: str = ""
    results: Sequence[Result] = ()
    filmstrips: Sequence[tuple[str, Sequence[np.ndarray]]] = ()
    """A caption and its frames (height, width, 3) uint8, in order of time."""
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
    with whole_file(target) as scratch:
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
        "title": extras.title or title_of(run, run_dir.resolve().name),
        "lead": extras.lead,
        "ending": ending,
        "mood": MOODS.get(ending.partition(":")[0], "neutral"),
        "started_at": _moment(run.get("started_at")),
        "tiles": tiles_of(run, metrics),
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
