"""Which episodes a page shows, and their curves."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from page_datasets import ACTION, DARK, FPS, JERKY, STATE, damage_video, read_files, write_dataset

from manyhands.report.datasets.dataset_files import DatasetFiles
from manyhands.report.datasets.episodes import (
    MAX_SPREAD,
    MAX_WORST,
    cards,
    common_ranges,
    length_charts,
    shown_episodes,
)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> DatasetFiles:
    return read_files(write_dataset(tmp_path_factory.mktemp("data") / "d", 40, None))


def test_the_worst_come_first_and_others_are_spread_over_the_dataset(
    dataset: DatasetFiles,
) -> None:
    shown = shown_episodes(dataset)
    assert shown.worst[0] == JERKY and shown.total == 40
    assert len(shown.all) == len(set(shown.all)) == MAX_WORST + MAX_SPREAD
    assert shown.spread[0] == 0 and shown.spread[-1] == 39
    assert np.diff(shown.spread).max() <= 4


def test_all_episodes_of_a_small_dataset_are_shown_those_that_are_damaged_first(
    tmp_path: Path,
) -> None:
    shown = shown_episodes(read_files(damage_video(write_dataset(tmp_path / "d"), 7)))
    assert shown.worst[0] == 7 and {JERKY, DARK} <= set(shown.worst)
    assert sorted(shown.all) == list(range(10))


def test_a_card_has_the_curves_of_its_episode(dataset: DatasetFiles) -> None:
    (card,) = cards(dataset, [JERKY], {})
    assert [chart.title for chart in card.charts] == [ACTION, STATE]
    assert [line.name for line in card.charts[0].lines] == ["x", "y"]
    assert dataset.numbers is not None
    frames = np.arange(*dataset.numbers.frame_bounds[JERKY])
    recorded = dataset.numbers.column_values(ACTION, frames)
    line = card.charts[0].lines[1].series
    assert np.array_equal(line.values, recorded[:, 1].astype(np.float64))
    assert np.allclose(line.steps, np.arange(len(frames)) / FPS)
    assert card.task == "reach" and card.facts.endswith(f"{len(frames)} frames")
    assert card.findings[0][0] and card.findings[0][1].startswith("jerk: ")


def test_curves_of_all_episodes_have_room_for_the_usual_values(dataset: DatasetFiles) -> None:
    low, high = common_ranges(dataset)[ACTION]
    assert 0 < low < 0.2 and 0.8 < high < 1
    charts = [each.charts[0] for each in cards(dataset, [0, 1], {})]
    assert {chart.scale.covers for chart in charts} == {(low, high)}


def test_without_numbers_a_card_has_no_curves(dataset: DatasetFiles) -> None:
    nothing = replace(dataset, numbers=None)
    assert common_ranges(nothing) == {} and cards(nothing, [0], {})[0].charts == []


def test_lengths_are_counted_and_follow_the_order_of_episodes() -> None:
    spread, by_episode = length_charts(np.array([2.5, 4.0, 3.0]))
    assert spread.lines[0].series.values.sum() == 3
    assert by_episode.lines[0].series.values.tolist() == [2.5, 4.0, 3.0]
    assert len(length_charts(np.array([2.5]))) == 1
