"""`manyhands report`: one HTML page of a run, or of several compared."""

from collections.abc import Sequence
from pathlib import Path

from manyhands import units
from manyhands.cli.flags import read_config, split_names
from manyhands.config.report import ReportConfig
from manyhands.errors import UserError

USAGE = """manyhands report RUN... [--output=FILE]

Writes one HTML page about a run directory, or about several runs side by side: curves, phases,
ranks, success, rollouts, training frames, configuration and the command that reproduces it. The
page is one file below 5 MB and needs no network."""


def report_command(arguments: Sequence[str]) -> int:
    """Write a page; return the exit code."""
    names, flags = split_names(arguments)
    config = read_config(ReportConfig, USAGE, flags)
    from manyhands.report.run_page import MAX_RUNS, write_report

    folders = list({Path(name).resolve(): Path(name) for name in names}.values())
    if not folders:
        raise UserError("no run. Name a run directory: manyhands report outputs/pick")
    if len(folders) > MAX_RUNS:
        raise UserError(f"{len(folders)} runs are too many for one page. Name at most {MAX_RUNS}")
    page = write_report(folders, config.output, num_frames=config.frames)
    print(f"report: {page} ({units.num_bytes(page.stat().st_size)})")
    return 0
