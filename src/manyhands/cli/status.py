"""`manyhands status`: the runs below a folder at a glance."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from manyhands import units
from manyhands.cli.flags import read_config, split_names, write_results
from manyhands.config.commands.status import StatusConfig
from manyhands.config.paths.similar import similar_path
from manyhands.errors import UserError
from manyhands.observe.fitted_tables import print_table
from manyhands.observe.run_status import RunStatus, find_runs, read_status

USAGE = """manyhands status [FOLDER] [--json=FILE]

Lists the runs below a folder (default: outputs if it exists, else the current folder), the most
recently changed first: step, loss, speed, time left, and whether the run continues. A run that
neither continues nor ended by itself was killed."""

DEFAULT = Path("outputs")
COLUMNS = ("run", "state", "step", "loss", "success", "samples/s", "time left", "changed")


def status_command(arguments: Sequence[str]) -> int:
    """List runs; return the exit code."""
    names, flags = split_names(arguments)
    config = read_config(StatusConfig, USAGE, flags)
    if len(names) > 1:
        raise UserError(f"status takes one folder, not {len(names)}: {' '.join(names)}")
    folder = Path(names[0]) if names else DEFAULT if DEFAULT.is_dir() else Path()
    if not folder.is_dir():
        hint = similar_path(folder) or "."
        raise UserError(f"{folder} is not a folder{hint} Name a folder that contains runs")
    runs = sorted(map(read_status, find_runs(folder)), key=lambda run: -run.changed_at)
    write_results(config.json, [as_json(run) for run in runs])
    if not runs:
        print(f"no runs in {folder.resolve()}")
        return 0
    print_table(*filled_columns(COLUMNS, [[*row_cells(run, folder)] for run in runs]))
    return 0


def as_json(run: RunStatus) -> dict[str, Any]:
    """A run as JSON."""
    return asdict(run) | {"folder": str(run.folder)}


def filled_columns(
    names: Sequence[str], rows: Sequence[Sequence[str]]
) -> tuple[list[str], list[list[str]]]:
    """The columns that are not empty."""
    filled = [place for place in range(len(names)) if any(row[place] for row in rows)]
    return [names[place] for place in filled], [[row[place] for place in filled] for row in rows]


def row_cells(run: RunStatus, folder: Path) -> Iterator[str]:
    """Yield the cells of a run."""
    yield str(folder if run.folder == folder else run.folder.relative_to(folder))
    yield run.state
    yield f"{run.step:,}" + ("" if run.num_steps is None else f" / {run.num_steps:,}")
    yield "" if run.loss is None else f"{run.loss:.4g}"
    yield "" if run.success is None else f"{run.success:.1%}"
    yield "" if run.samples_per_s is None else f"{run.samples_per_s:,.0f}"
    yield "" if run.remaining_s is None else units.duration(run.remaining_s)
    yield f"{units.duration(max(0.0, time.time() - run.changed_at))} ago"
