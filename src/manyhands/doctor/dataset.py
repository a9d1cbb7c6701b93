"""The findings of a dataset check as a table and as JSON."""

from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from manyhands.config.commands.doctor import CheckedDatasetConfig, DoctorConfig
from manyhands.config.train import DatasetConfig
from manyhands.data.checking.check import CheckOptions, Progress
from manyhands.data.checking.faults import Fault, faults_of
from manyhands.data.checking.finding import CHECKS, CheckResult, State
from manyhands.data.checking.first_look import FirstLook, first_look
from manyhands.data.checking.remedies import Avoidance, doctor_command, remedies
from manyhands.data.checking.result_cache import check_folder
from manyhands.data.checking.verdict import MAX_SHOWN, findings_text, has_more
from manyhands.data.episodes import Source, select_episodes
from manyhands.data.location import locate_dataset, shared_home
from manyhands.errors import DatasetError
from manyhands.lerobot_format.dataset.meta import read_dataset_meta


def examine(config: DoctorConfig, on_progress: Progress | None = None) -> CheckResult:
    """Check a dataset, or return the cached result if it has not changed."""
    checking = CheckOptions(
        thoroughness="quick" if config.quick else "full",
        num_workers=config.num_workers,
        on_progress=on_progress,
    )
    root, home = checked_folder(config.dataset), config.cache.folder or shared_home()
    return check_folder(root, config.dataset.episodes, home, checking)


def look_first(config: DoctorConfig) -> FirstLook | None:
    """The first verdict; None if the metadata cannot be read."""
    root = checked_folder(config.dataset)
    try:
        meta = read_dataset_meta(root)
        source = Source(root, meta, select_episodes(meta.episodes, config.dataset.episodes))
    except DatasetError:
        return None
    return first_look(source)


def checked_folder(dataset: CheckedDatasetConfig) -> Path:
    """The folder of the dataset to check."""
    # A folder that lacks its metadata is checked too: that is its fault.
    if dataset.root is not None and dataset.root.is_dir():
        return dataset.root
    return locate_dataset(dataset.repo_id, dataset.root, dataset.revision)


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
        "remedies": remedies(result, Avoidance(lists_all=True)) if result.findings else [],
        "wall_s": result.wall_s,
        "cached": result.cached,
    }


def _check(result: CheckResult, check: str) -> dict[str, Any]:
    return {
        "name": check,
        "state": result.state_of(check),
        "looked_at": result.looked_at.get(check),
        "findings": [_fault(fault) for fault in faults_of(result.of_check(check))],
    }


def _fault(fault: Fault) -> dict[str, Any]:
    first = fault.first
    return {
        "episodes": fault.episodes,
        "files": fault.files,
        "message": first.message,
        "severity": first.severity,
        "keys": sorted({each.key for each in fault.findings if each.key is not None}),
        "frames": sorted({each.frames for each in fault.findings if each.frames is not None}),
    }


def way_out(result: CheckResult, shows_all: bool) -> list[str]:
    """Commands and flags that help, to print below the table."""
    if result.is_usable:
        more = not shows_all and has_more(result)
        return [f"List every finding: {doctor_command(result.root)}"] if more else []
    lists_all = shows_all or not has_more(result)
    return remedies(result, Avoidance(lists_all=lists_all, max_bad=DatasetConfig.max_bad))


_COLORS: dict[State, str] = {
    "ok": "green",
    "warning": "yellow",
    "bad": "red",
    "incomplete": "yellow",
    "skipped": "dim",
}


def findings_table(result: CheckResult, shows_all: bool = False) -> Table:
    """A row per check: its name, scope, state, and first findings or all."""
    limit = None if shows_all else MAX_SHOWN
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
            escape(findings_text(result, check, limit)),
        )
    return table
