"""`manyhands report`: one HTML page of a run, of several compared, or of a dataset."""

from collections.abc import Sequence
from pathlib import Path

from manyhands import units
from manyhands.cli.dataset_folder import is_dataset
from manyhands.cli.flags import read_config, split_names
from manyhands.config.commands.report import ReportConfig
from manyhands.errors import DatasetError, UserError

USAGE = """manyhands report RUN... [--output=FILE]
manyhands report DATASET [--output=FILE]

Writes one HTML page about a run directory, or about several runs side by side: curves, phases,
ranks, success, rollouts, training frames, configuration and the command that reproduces it. Of a
dataset, by folder or Hub name: episodes, statistics, tasks, cameras, what doctor finds, and the
quality of episodes. The page is one file below 5 MB and needs no network."""


def report_command(arguments: Sequence[str]) -> int:
    """Write a page; return the exit code."""
    names, flags = split_names(arguments)
    config = read_config(ReportConfig, USAGE, flags)
    folders = {Path(name).resolve(): name for name in names}
    if not folders:
        raise UserError("no run. Name a run directory: manyhands report outputs/pick")
    page = _write([*folders.values()], config)
    print(f"report: {page} ({units.num_bytes(page.stat().st_size)})")
    return 0


def _write(names: Sequence[str], config: ReportConfig) -> Path:
    from manyhands.report.datasets.dataset_page import write_dataset_report
    from manyhands.report.runs.run_files import check_run
    from manyhands.report.runs.run_page import MAX_RUNS, write_report

    datasets = {name: root for name in names if (root := _dataset_root(name))}
    if not datasets:
        if len(names) > MAX_RUNS:
            raise UserError(f"{len(names)} runs are too many for one page. Name at most {MAX_RUNS}")
        folders = [Path(name) for name in names]
        for folder in folders:
            check_run(folder)
        return write_report(folders, config.output, num_frames=config.frames)
    if len(names) > 1:
        others = [name for name in names if name not in datasets]
        seen = f"{next(iter(datasets))} is a dataset" + (f", {others[0]} is none" if others else "")
        raise UserError(f"{seen}. A page shows runs, or one dataset: name only that one")
    ((name, root),) = datasets.items()
    label = "" if root == Path(name) else name
    return write_dataset_report(root, config.output, label, config.frames)


def _dataset_root(name: str) -> Path | None:
    """The folder of a dataset by its path, or by its Hub name; None if it is none."""
    path = Path(name)
    if path.is_dir():
        return path if is_dataset(path) else None
    # A path whose folder is there was mistyped; it is no name of an owner on the Hub.
    if len(path.parts) != 2 or path.is_absolute() or path.parent.is_dir():
        return None
    from manyhands.data.location import locate_dataset

    try:
        return locate_dataset(name)
    except DatasetError as error:
        reason = str(error).partition("\n")[0]
        raise UserError(f"{name} is not a folder, and {reason}") from None
