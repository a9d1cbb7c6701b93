"""The findings of a dataset check as a table and as JSON."""

from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from manyhands.config.commands import CheckedDatasetConfig, DoctorConfig
from manyhands.data.checking.check import CheckOptions, Progress
from manyhands.data.checking.finding import CHECKS, CheckResult, State
from manyhands.data.checking.result_cache import check_folder
from manyhands.data.checking.verdict import findings_text
from manyhands.data.location import locate_dataset, shared_home


def examine(config: DoctorConfig, on_progress: Progress | None = None) -> CheckResult:
    """Check a dataset, or return the cached result if it has not changed."""
    checking = CheckOptions(
        thoroughness="quick" if config.quick else "full",
        num_workers=config.num_workers,
        on_progress=on_progress,
    )
    root, home = checked_folder(config.dataset), config.cache.folder or shared_home()
    return check_folder(root, config.dataset.episodes, home, checking)


def checked_folder(dataset: CheckedDatasetConfig) -> Path:
    """The folder of the dataset to check."""
    # A folder that lacks its metadata is checked too: that is its fault.
    if dataset.root is not None and dataset.root.is_dir():
        return dataset.root
    return locate_dataset(dataset.repo_id, dataset.root, dataset.revision)


REPORTED_FIELDS = ("episode", "file", "message", "severity", "key", "frames")


def as_json(result: CheckResult) -> dict[str, Any]:
    """A result as values for a JSON file."""
    return {
        "root": result.root,
        "thoroughness": result.thoroughness,
        "is_usable": result.is_usable,
        "checks": [_check(result, check) for check in CHECKS],
        "num_episodes": result.num_episodes,
        "num_frames": result.num_frames,
        "bad_episodes": result.bad_episodes,
        "wall_s": result.wall_s,
        "cached": result.cached,
    }


def _check(result: CheckResult, check: str) -> dict[str, Any]:
    return {
        "name": check,
        "state": result.state_of(check),
        "looked_at": result.looked_at.get(check),
        "findings": [
            {name: getattr(finding, name) for name in REPORTED_FIELDS}
            for finding in result.of_check(check)
        ],
    }


_COLORS: dict[State, str] = {"ok": "green", "warning": "yellow", "bad": "red", "skipped": "dim"}


def findings_table(result: CheckResult) -> Table:
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
            escape(findings_text(result, check)),
        )
    return table
