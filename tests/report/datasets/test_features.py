"""Numbers of features: recorded statistics, and distributions of values."""

from dataclasses import replace

import numpy as np
import pytest
from page_datasets import ACTION, CAMERA, STATE, read_files, write_dataset

from manyhands.lerobot_format.dataset.info import Feature
from manyhands.report.axes import short
from manyhands.report.datasets import features as module
from manyhands.report.datasets.dataset_files import DatasetFiles
from manyhands.report.datasets.features import (
    number_name,
    spread_frames,
    statistics_table,
    value_histograms,
)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> DatasetFiles:
    return read_files(write_dataset(tmp_path_factory.mktemp("data") / "d", 4, "image"))


def test_statistics_are_those_that_are_recorded(dataset: DatasetFiles) -> None:
    table = statistics_table(dataset)
    rows = {row.cells[0]: row.cells[1:] for row in table.rows}
    assert list(rows)[:2] == [f"{STATE}[x]", f"{STATE}[y]"] and f"{CAMERA}[green]" in rows
    stats = dataset.meta.stats[ACTION]
    measures = ("min", "mean", "max", "std")
    assert list(rows[f"{ACTION}[y]"]) == [short(float(stats[name][1])) for name in measures]


def test_statistics_that_are_not_recorded_are_computed_from_numbers(
    dataset: DatasetFiles,
) -> None:
    unrecorded = replace(dataset, meta=replace(dataset.meta, stats={}))
    table, recorded = statistics_table(unrecorded), statistics_table(dataset)
    assert table.rows[:2] == recorded.rows[:2] and "computed" in table.note
    assert f"{CAMERA}: not recorded" in [row.cells[0] for row in table.rows]


def test_every_value_is_in_a_bar(dataset: DatasetFiles) -> None:
    charts, note = value_histograms(dataset)
    assert [chart.title for chart in charts] == [
        f"{key}[{axis}]" for key in (STATE, ACTION) for axis in "xy"
    ]
    assert {chart.lines[0].series.values.sum() for chart in charts} == {
        dataset.meta.info.total_frames
    }
    assert note == ""


def test_large_datasets_are_thinned_and_that_is_said(
    dataset: DatasetFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_FRAMES", 20)
    monkeypatch.setattr(module, "MAX_HISTOGRAMS", 3)
    charts, note = value_histograms(dataset)
    assert charts[0].lines[0].series.values.sum() == 20 and len(charts) == 3
    assert note.startswith("Of 20 of ") and note.endswith("1 more are not shown.")
    assert dataset.numbers is not None
    assert len(np.unique(spread_frames(dataset.numbers, 20))) == 20


def test_numbers_have_the_names_of_the_dataset() -> None:
    assert number_name("reward", 0, Feature("float32", (1,))) == "reward"
    assert number_name("grid", 4, Feature("float32", (2, 3), ["a", "b"])) == "grid[4]"
    assert number_name("arm", 1, Feature("float32", (2,), {"motors": ["a", "b"]})) == "arm[b]"
    assert number_name("top", 2, Feature("video", (3, 4, 4))) == "top[blue]"


def test_numbers_of_large_features_are_counted(dataset: DatasetFiles) -> None:
    stats = {name: np.arange(50.0) for name in ("min", "mean", "max", "std")}
    info = replace(dataset.meta.info, features={ACTION: Feature("float32", (50,))})
    meta = replace(dataset.meta, info=info, stats={ACTION: stats})
    rows = [row.cells[0] for row in statistics_table(replace(dataset, meta=meta)).rows]
    assert f"{ACTION}: 34 more" in rows
