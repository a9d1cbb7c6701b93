"""The page of a dataset."""

from pathlib import Path

from manyhands.observe.console import progress_bar
from manyhands.report.datasets.dataset_files import Bar, DatasetFiles, read_dataset_files
from manyhands.report.datasets.dataset_sections import (
    ORDER,
    dataset_header,
    dataset_sections,
    episodes_section,
)
from manyhands.report.datasets.episodes import cards, shown_episodes
from manyhands.report.datasets.film_strips import film_strips
from manyhands.report.media import Allowance
from manyhands.report.page import (
    MARGIN,
    MAX_BYTES,
    Page,
    bounded_sections,
    require_report,
    write_page,
)
from manyhands.report.text import clipped

NUM_IMAGES = 6  # Per film strip


def write_dataset_report(
    root: Path,
    output: Path | None = None,
    name: str = "",
    num_images: int = NUM_IMAGES,
    bar: Bar = progress_bar,
) -> Path:
    """Write a page about a dataset, and return its path; the dataset stays as it is."""
    require_report()
    label = clipped(name or root.resolve().name or "dataset", 200)
    target = output or Path(f"{Path(label).name}.html")
    dataset = read_dataset_files(root, label, bar)
    write_page(build_dataset_page(dataset, num_images, bar), target)
    return target


def build_dataset_page(dataset: DatasetFiles, num_images: int, bar: Bar) -> Page:
    """The page of a dataset that has been read."""
    shown = shown_episodes(dataset)
    note = "Curves of a feature share a vertical scale unless they exceed it."
    sections = [dataset_header(dataset), *dataset_sections(dataset)]
    # Without images first: what they may take is known only then.
    plain = episodes_section(shown, cards(dataset, shown.all, {}), note)
    bounded = bounded_sections([*sections, plain], MAX_BYTES - MARGIN)
    used = len(Page(dataset.label, bounded).html().encode("utf-8", "replace"))
    if bounded[-1] is plain:
        with bar("decoding film strips") as on_progress:
            allowance = Allowance(MAX_BYTES - MARGIN - used)
            strips = film_strips(dataset, shown.all, allowance, num_images, on_progress)
        bounded[-1] = episodes_section(shown, cards(dataset, shown.all, strips), note)
    return Page(dataset.label, sorted(bounded, key=lambda each: ORDER.index(each.anchor)))
