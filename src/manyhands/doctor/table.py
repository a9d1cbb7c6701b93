"""The findings of a check for people: a row per check, and a verdict."""

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from manyhands import units
from manyhands.data.checking.finding import CHECKS, CheckResult, State
from manyhands.data.checking.scope import counted

MAX_SHOWN = 3
"""Findings shown per check; the JSON file has all."""
_COLORS: dict[State, str] = {"ok": "green", "warning": "yellow", "bad": "red", "skipped": "dim"}


def table_of(result: CheckResult) -> Table:
    """A row per check: its name, scope, state, and first findings."""
    table = Table(title=escape(result.root), title_justify="left", box=SIMPLE_HEAD)
    table.add_column("check", no_wrap=True)
    table.add_column("checked")
    table.add_column("state", no_wrap=True)
    table.add_column("found", overflow="fold")
    for check in CHECKS:
        state = result.state_of(check)
        table.add_row(
            check,
            result.looked_at.get(check, "nothing"),
            f"[{_COLORS[state]}]{state}[/]",
            escape(_findings(result, check)),
        )
    return table


def verdict_of(result: CheckResult) -> str:
    """One line: whether the dataset is usable, and what was checked."""
    num_bad = sum(finding.severity == "bad" for finding in result.findings)
    num_warnings = len(result.findings) - num_bad
    seen = (counted(result.num_episodes, "episode"), counted(result.num_frames, "frame"))
    parts = [f"checked {' with '.join(seen)}"]
    parts[0] += " earlier" if result.cached else f" in {units.duration(result.wall_s)}"
    if num_bad:
        parts.append(f"{counted(num_bad, 'fault')} in {_episodes(result)}")
    if num_warnings:
        parts.append(counted(num_warnings, "warning"))
    return f"{'usable' if result.is_usable else 'bad'}: {', '.join(parts)}"


def _episodes(result: CheckResult) -> str:
    bad = result.bad_episodes
    return counted(len(bad), "episode") if bad else "the dataset"


def _findings(result: CheckResult, check: str) -> str:
    findings = result.of_check(check)
    lines = [finding.told for finding in findings[:MAX_SHOWN]]
    if len(findings) > MAX_SHOWN:
        lines.append(f"and {len(findings) - MAX_SHOWN} more")
    return "\n".join(lines)
