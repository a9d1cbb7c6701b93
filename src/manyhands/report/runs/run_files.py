"""Everything a run left in its directory, read for a page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

from manyhands.config.paths.similar import similar_path
from manyhands.config.runs.run_dir import CHECKPOINTS, LAST, PRETRAINED
from manyhands.errors import UserError
from manyhands.lerobot_format.names import INFO_FILE
from manyhands.observe.diagnosis.run_verdict import rows_to_judge
from manyhands.observe.run_status import (
    KILLED,
    METRICS_FILE,
    RUN_FILE,
    RUNNING,
    find_runs,
    lock_holder,
    run_state,
)
from manyhands.report.metrics import Row, Series, read_metrics, read_rows, read_run
from manyhands.report.runs.evaluations import Evaluation, find_evaluations
from manyhands.report.runs.open_loop import OpenLoopResult, find_open_loop
from manyhands.report.runs.ranks import RANKS_FILE
from manyhands.report.text import clipped, clipped_apart

MOODS = {"finished": "good", "diverged": "bad", "failed": "bad", KILLED: "bad"}
"""How an ending is colored, by its first word; any other is neither good nor bad."""
LONGEST_LABEL = 80
PASS_RUN = "Pass a run's --output_dir"
PASS_EITHER = f"{PASS_RUN}, or the folder of a dataset"
MAX_NAMED = 5  # Runs that an error proposes.


@dataclass(frozen=True)
class RunFiles:
    """The files of one run."""

    label: str
    folder: Path
    run: Mapping[str, Any]
    ending: str
    """How the run ended, or that it continues; empty if nothing is known of it."""
    metrics: Mapping[str, Series]
    """The numbers of all rows by name."""
    rows: Sequence[Row]
    """The rows that a diagnosis needs."""
    rank_rows: Sequence[Row]
    evaluations: Sequence[Evaluation]
    open_loop: Sequence[OpenLoopResult]

    @property
    def mood(self) -> str:
        """Whether the ending is a good one."""
        return MOODS.get(self.ending.partition(":")[0], "neutral")

    @property
    def started_at(self) -> str:
        """When the run began, as people write it."""
        written = str(self.run.get("started_at") or "")
        try:
            moment = datetime.fromisoformat(written)
        except ValueError:
            return clipped(written, 80)
        return f"{moment:%Y-%m-%d %H:%M} {moment.tzname() or ''}".rstrip()

    @property
    def keys(self) -> list[tuple[str, str]]:
        """Where the run and its newest policy are, and its seed."""
        found = [("run directory", str(self.folder.resolve()))]
        policy = self.folder / CHECKPOINTS / LAST / PRETRAINED
        if policy.is_dir():
            found.append(("checkpoint", str(policy.resolve())))
        config = self.run.get("config")
        if isinstance(config, dict) and "seed" in config:
            found.append(("seed", clipped(config["seed"], 80)))
        if self.run.get("job_name"):
            found.append(("job name", clipped(self.run["job_name"], 200)))
        return found


def check_folder(folder: Path, advice: str = PASS_RUN) -> None:
    """Raise a usage error for a path that is no folder."""
    if not folder.is_dir():
        hint = similar_path(folder) or "."
        raise UserError(f"{folder} is not a folder{hint} {advice}")


def check_run(folder: Path) -> None:
    """Raise a usage error for a folder in which no run has left anything."""
    check_folder(folder, PASS_EITHER)
    if not has_results(folder):
        advice = runs_below(folder) or PASS_EITHER
        raise UserError(
            f"{folder} is neither a run ({RUN_FILE} is missing) nor a dataset ({INFO_FILE} is "
            f"missing). {advice}"
        )


def check_live_run(folder: Path) -> None:
    """Raise a usage error for a folder without a run; one that just began has left nothing yet."""
    check_folder(folder)
    if (folder / INFO_FILE).is_file():
        raise UserError(f"{folder} is a dataset, not a run. Use: manyhands report {folder}")
    if not has_results(folder) and lock_holder(folder) is None:
        advice = runs_below(folder) or PASS_RUN
        raise UserError(f"{folder} has no run ({RUN_FILE} is missing). {advice}")


def has_results(folder: Path) -> bool:
    """Whether a run or an evaluation has left anything in a folder."""
    is_run = (folder / RUN_FILE).is_file() or (folder / METRICS_FILE).is_file()
    return is_run or bool(find_evaluations(folder)) or bool(find_open_loop(folder))


def runs_below(folder: Path) -> str:
    """The advice to choose one of the runs below a folder; empty if there are none."""
    names = [str(run) for run in islice(find_runs(folder), MAX_NAMED + 1)]
    more = ", ..." if len(names) > MAX_NAMED else ""
    return f"Choose a run below it: {', '.join(names[:MAX_NAMED])}{more}" if names else ""


def read_run_files(folder: Path, label: str = "") -> RunFiles:
    """Read a run directory; the label, if any, names it beside others. Damaged files are empty."""
    check_folder(folder)
    prefix = f"{label}, " if label else ""
    run = read_run(folder)
    state = run_state(folder, run)
    return RunFiles(
        label=label or folder.resolve().name,
        folder=folder,
        run=run,
        ending=clipped(state, 200) if run or state == RUNNING else "",
        metrics=read_metrics(folder),
        rows=rows_to_judge(folder / METRICS_FILE),
        rank_rows=list(read_rows(folder / RANKS_FILE)),
        evaluations=find_evaluations(folder, prefix),
        open_loop=find_open_loop(folder, prefix),
    )


def run_labels(folders: Sequence[Path]) -> list[str]:
    """The shortest ends of paths that distinguish several folders; empty for a single one."""
    if len(folders) == 1:
        return [""]
    paths = [folder.resolve() for folder in folders]
    for length in range(1, max(len(path.parts) for path in paths) + 1):
        labels = [str(Path(*path.parts[-length:])) for path in paths]
        if len(set(labels)) == len(labels):
            break
    return clipped_apart(labels, LONGEST_LABEL)
