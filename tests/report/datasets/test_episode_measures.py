"""The quality of episodes on a page."""

from dataclasses import replace
from pathlib import Path

import pytest
from page_datasets import CAMERA, DARK, JERKY, read_files, write_dataset

from manyhands.data.quality.dataset_quality import DatasetQuality
from manyhands.report.datasets.episode_measures import (
    MAX_LISTED,
    MAX_ROWS,
    fault_table,
    finding_table,
    measure_charts,
    quality_note,
)


@pytest.fixture(scope="module")
def quality(tmp_path_factory: pytest.TempPathFactory) -> DatasetQuality:
    found = read_files(write_dataset(tmp_path_factory.mktemp("data") / "d")).quality
    assert found is not None
    return found


def test_faults_name_their_episodes(quality: DatasetQuality) -> None:
    rows = {row.cells[0]: row.cells[1:] for row in fault_table(quality).rows}
    assert rows["jerk"] == [str(JERKY), "1"] and rows["dark camera"] == [str(DARK), "1"]
    assert "idle" not in rows


def test_findings_have_a_row_per_episode(quality: DatasetQuality) -> None:
    rows = {row.cells[0]: row.cells[1:] for row in finding_table(quality).rows}
    assert set(rows) == {str(JERKY), str(DARK)} and rows[str(JERKY)][1] == "exclude"
    assert f"dark camera: {CAMERA}" in rows[str(DARK)][2]


def test_long_tables_say_what_is_missing(quality: DatasetQuality) -> None:
    poor = quality.episodes[JERKY]
    many = tuple(replace(poor, episode=number) for number in range(MAX_ROWS + 5))
    large = replace(quality, episodes=many)
    assert len(finding_table(large).rows) == MAX_ROWS
    assert finding_table(large).note == "5 more episodes with findings."
    listed = fault_table(large).rows[0].cells[1]
    assert listed.endswith(f"and {MAX_ROWS + 5 - MAX_LISTED} more")


def test_every_measure_of_every_episode_is_counted(quality: DatasetQuality) -> None:
    charts = {chart.title: chart.lines[0].series for chart in measure_charts(quality)}
    assert {"Jerk", "Idle frames", f"Brightness of {CAMERA}"} <= set(charts)
    assert {series.values.sum() for series in charts.values()} == {10}


def test_the_note_says_what_was_judged(quality: DatasetQuality, tmp_path: Path) -> None:
    assert quality_note(quality).startswith("Judged 10 episodes, 2 with findings.")
    assert "Not all cameras" in quality_note(replace(quality, is_complete=False))
