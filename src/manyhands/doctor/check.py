"""Results of checks as a table and as JSON."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

State = Literal["ok", "warn", "fail", "skipped"]
COLORS: dict[State, str] = {"ok": "green", "warn": "yellow", "fail": "red", "skipped": "dim"}
MIN_WIDTH = 100
"""Columns of a terminal with room for what was found and for remedies beside it."""


@dataclass(frozen=True)
class Check:
    """One check: what was found, and what to do about it."""

    name: str
    state: State
    found: str
    remedy: str = ""


def checks_table(title: str, checks: Sequence[Check], width: int) -> Table:
    """A row per check; remedies are below what was found if the width is too small for both."""
    is_narrow = width < MIN_WIDTH
    table = Table(title=escape(title), title_justify="left", box=SIMPLE_HEAD)
    table.add_column("check", no_wrap=True)
    table.add_column("state", no_wrap=True)
    for name in ("found and remedy",) if is_narrow else ("found", "remedy"):
        table.add_column(name, overflow="fold")
    for check in checks:
        texts = [check.found, check.remedy]
        cells = ["\n".join(filter(None, texts))] if is_narrow else texts
        state = f"[{COLORS[check.state]}]{check.state}[/]"
        table.add_row(escape(check.name), state, *map(escape, cells))
    return table


def summary_line(checks: Sequence[Check]) -> str:
    """One line: how many checks ended how."""
    states = [check.state for check in checks]
    counted = [f"{states.count(state)} {state}" for state in COLORS if state in states]
    return f"{len(checks)} checks: {', '.join(counted)}"


def checks_json(checks: Sequence[Check]) -> dict[str, Any]:
    """Checks as values for a JSON file."""
    return {"is_usable": is_usable(checks), "checks": [asdict(check) for check in checks]}


def is_usable(checks: Sequence[Check]) -> bool:
    """Whether no check failed."""
    return all(check.state != "fail" for check in checks)
