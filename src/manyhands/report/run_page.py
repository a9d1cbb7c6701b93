"""The page of one run, or of several compared."""

from collections.abc import Sequence
from pathlib import Path

from manyhands.atomic import atomic_file
from manyhands.errors import UserError
from manyhands.report.facts import run_title
from manyhands.report.media import Allowance
from manyhands.report.page import MAX_BYTES, Page, Section, require_report, section
from manyhands.report.run_files import RunFiles, read_run_files, run_labels
from manyhands.report.run_sections import (
    NOTHING_MORE,
    ORDER,
    ReportExtras,
    header,
    media_sections,
    text_sections,
)
from manyhands.report.training_frames import TrainingFrames, training_frames

REPORT = "report.html"
MAX_RUNS = 8
NUM_FRAMES = 6
MARGIN = 100_000  # Bytes of markup around images and videos


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
    page = build_page(runs, extras, frames).html()
    try:
        with atomic_file(target) as scratch:
            scratch.write_text(page, encoding="utf-8", errors="replace")
    except OSError as error:
        raise UserError(
            f"cannot write {target}: {error.strerror}. Set --output=FILE in a writable folder"
        ) from None
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


def bounded_sections(sections: Sequence[Section], max_bytes: int) -> list[Section]:
    """The same sections; of those that are too large together, the largest only by name."""
    kept = list(sections)
    while sum(len(each.html.encode("utf-8", "replace")) for each in kept) > max_bytes:
        largest = max(range(len(kept)), key=lambda place: len(kept[place].html))
        note = "Not shown: the page would exceed its size."
        kept[largest] = section(
            kept[largest].anchor, kept[largest].title, "notes", {"notes": [note]}
        )
    return kept
