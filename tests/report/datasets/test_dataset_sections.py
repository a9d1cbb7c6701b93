"""The sections of a dataset's page."""

from dataclasses import replace

import pytest
from page_datasets import ACTION, DARK, JERKY, read_files, write_dataset
from page_runs import PageReader

from manyhands.report.datasets.dataset_files import DatasetFiles
from manyhands.report.datasets.dataset_sections import (
    ORDER,
    dataset_header,
    dataset_sections,
    episodes_section,
)
from manyhands.report.datasets.episodes import cards, shown_episodes


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> DatasetFiles:
    return read_files(write_dataset(tmp_path_factory.mktemp("data") / "d"))


def texts(dataset: DatasetFiles) -> dict[str, str]:
    return {each.anchor: PageReader(each.html).text for each in dataset_sections(dataset)}


def test_the_header_has_the_size_and_the_verdict(dataset: DatasetFiles) -> None:
    text = PageReader(dataset_header(dataset).html).text
    assert "usable: checked 10 episodes" in text and str(dataset.root) in text
    assert "episodes with findings 2 2 worth excluding" in text and "robot arm" in text
    unchecked = PageReader(dataset_header(replace(dataset, check=None)).html).text
    assert "not checked" in unchecked


def test_sections_say_what_was_found(dataset: DatasetFiles) -> None:
    found = texts(dataset)
    assert set(found) | {"top", "episodes"} == set(ORDER)
    assert found["check"].startswith("check checked state metadata v3.0")
    assert f"jerk {JERKY} 1" in found["quality"] and f"dark camera {DARK} 1" in found["quality"]
    assert "reach 10 100%" in found["tasks"] and "32 × 32 color" in found["cameras"]
    assert f"{ACTION}[x]" in found["statistics"]
    assert f"'--dataset.exclude_episodes=[{JERKY},{DARK}]'" in found["commands"]


def test_what_is_missing_is_said(dataset: DatasetFiles) -> None:
    found = texts(replace(dataset, check=None, quality=None, numbers=None, fault="no table"))
    assert "was stopped" in found["check"] and found["quality"] == "Not judged: no table"
    assert "Values are not shown: no table" in found["statistics"]
    assert "exclude_episodes" not in found["commands"]


def test_episodes_come_in_two_groups(dataset: DatasetFiles) -> None:
    shown = shown_episodes(dataset)
    section = episodes_section(shown, cards(dataset, shown.all, {}), "")
    page = PageReader(section.html)
    worst, others = page.texts.index("Worst quality first"), page.texts.index("Others")
    assert worst < page.texts.index(f"Episode {JERKY}") < others < page.texts.index("Episode 0")
    assert "10 of 10 episodes shown." in page.text and len(page.charts) == 20
