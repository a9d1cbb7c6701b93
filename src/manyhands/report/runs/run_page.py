"""The page of one run, or of several compared."""

from collections.abc import Sequence
from pathlib import Path

from manyhands.report.facts import run_title
from manyhands.report.media import Allowance
from manyhands.report.page import (
    MARGIN,
    MAX_BYTES,
    Page,
    bounded_sections,
    require_report,
    write_page,
)
from manyhands.report.runs.run_files import RunFiles, read_run_files, run_labels
from manyhands.report.runs.run_sections import (
    NOTHING_MORE,
    ORDER,
    ReportExtras,
    header,
    media_sections,
    text_sections,
)
from manyhands.report.runs.training_frames import TrainingFrames, training_frames

REPORT = "report.html"
MAX_RUNS = 8
NUM_FRAMES = 6


def write_report(
    folders: Sequence[Path],
    output: Path | None = None,
    extras: ReportExtras = NOTHING_MORE,
    num_frames: int = NUM_FRAMES,
) -> Path:
    """Write a page about what runs have done so far, and return its path."""
    require_report()
    runs = [
        read_run_files(folder, label)
        for folder, label in zip(folders, run_labels(folders), strict=True)
    ]
    frames = training_frames(runs[0].run, num_frames) if len(runs) == 1 and num_frames else None
    target = output or (folders[0] / REPORT if len(folders) == 1 else Path(REPORT))
    write_page(build_page(runs, extras, frames), target)
    return target


def build_page(
    runs: Sequence[RunFiles], extras: ReportExtras, frames: TrainingFrames | None
) -> Page:
    """The page of runs that have been read."""
    if len(runs) == 1:
        title = extras.title or run_title(runs[0].run, runs[0].label)
    else:
        title = extras.title or f"{len(runs)} runs compared"
    sections = [header(runs, title, extras), *text_sections(runs, extras)]
    bounded = bounded_sections(sections, MAX_BYTES - MARGIN)
    used = len(Page(title, bounded).html().encode("utf-8", "replace"))
    media = media_sections(runs, frames, Allowance(MAX_BYTES - MARGIN - used))
    return Page(title, sorted([*bounded, *media], key=lambda each: ORDER.index(each.anchor)))
