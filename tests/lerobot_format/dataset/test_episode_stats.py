"""Statistics of single episodes."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from manyhands.errors import DatasetError
from manyhands.lerobot_format import names
from manyhands.lerobot_format.dataset.episode_stats import read_episode_stats
from manyhands.lerobot_format.dataset.info import read_info
from manyhands.lerobot_format.dataset.meta import read_dataset_meta, read_stats
from manyhands.lerobot_format.dataset.statistics import aggregate_stats
from manyhands.types import Stats

FILE = "meta/episodes/chunk-000/file-000.parquet"


def read_all(root: Path, *episodes: int) -> list[Stats] | None:
    return read_episode_stats(root, read_info(root), np.array(episodes) if episodes else None)


@pytest.mark.parametrize("version", ["v2.1", "v3.0"])
def test_every_episode_has_its_own(plant, version):
    parts = read_all(plant(version))
    assert parts is not None
    assert [part["action"]["mean"].tolist() for part in parts] == [[n + 0.5] * 2 for n in range(3)]
    assert [part["action"]["count"].tolist() for part in parts] == [[4], [3], [2]]
    assert parts[0]["observation.images.top"]["std"].shape == (3, 1, 1)
    assert parts[0]["observation.depth"]["std"].shape == (1, 1, 1)
    assert parts[0]["observation.grid"]["max"].shape == ((3,) if version == "v3.0" else (2, 3))


@pytest.mark.parametrize("version", ["v2.1", "v3.0"])
def test_only_the_episodes_asked_for_come_in_the_order_asked(plant, version):
    root = plant(version)
    parts = read_all(root, 2, 0)
    assert parts is not None
    assert [part["action"]["count"].tolist() for part in parts] == [[2], [4]]
    with pytest.raises(DatasetError, match="has no statistics of episode 7"):
        read_all(root, 0, 7)


def test_version_2_0_has_none(plant):
    assert read_all(plant("v2.0")) is None


def test_a_table_without_such_columns_has_none(plant):
    root = plant("v3.0")
    table = pq.read_table(root / FILE)
    columns = [name for name in table.column_names if not name.startswith("stats/")]
    pq.write_table(table.select(columns), root / FILE)
    assert read_all(root) is None
    assert len(read_dataset_meta(root).episodes) == 3


def test_none_are_told_unless_all_files_have_some(plant):
    root = plant("v3.0")
    table = pq.read_table(root / FILE)
    columns = [name for name in table.column_names if not name.startswith("stats/")]
    pq.write_table(table.slice(0, 2), root / FILE)
    other = root / FILE.replace("file-000", "file-001")
    pq.write_table(table.slice(2).select(columns), other)
    assert read_all(root) is None
    assert len(read_all(root, 0, 1) or []) == 2


def test_what_is_left_empty_is_left_out(plant):
    root = plant("v3.0")
    table = pq.read_table(root / FILE)
    place = table.column_names.index("stats/action/q50")
    values = [None, [1.0, 2.0], None]
    pq.write_table(table.set_column(place, "stats/action/q50", pa.array(values)), root / FILE)
    parts = read_all(root)
    assert parts is not None
    assert ["q50" in part["action"] for part in parts] == [False, True, False]


def test_lerobots_are_read_and_fold_to_those_of_the_dataset(shared):
    root = shared / "data" / "pusht"
    together = aggregate_stats(read_all(root) or [])
    for key, stats in read_stats(root).items():
        for name, value in stats.items():
            np.testing.assert_allclose(together[key][name], value, rtol=1e-6, atol=1e-6)


def edit_column(root: Path, name: str, column: pa.Array) -> None:
    table = pq.read_table(root / FILE)
    place = table.column_names.index(name)
    pq.write_table(table.set_column(place, name, column), root / FILE)


@pytest.mark.parametrize(
    ("column", "fault"),
    [
        (pa.array(["a", "b", "c"]), "must contain numbers, not string"),
        (pa.array([[1.0, None]] * 3), "mean of action is"),
        (pa.array([[1.0, 2.0, 3.0]] * 3), r"mean of action has the unexpected shape \[3\]"),
        (pa.array([[]] * 3, pa.list_(pa.float64())), "mean of action is"),
        (pa.array([[[1.0], [1.0, 2.0]]] * 3), "mean of action is"),
    ],
)
def test_columns_that_hold_no_statistics_are_refused(plant, column, fault):
    root = plant("v3.0")
    edit_column(root, "stats/action/mean", column)
    with pytest.raises(DatasetError, match=rf"file-000\.parquet: .*{fault}"):
        read_all(root)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"stats": None}, "the stats of episode 0 must be an object of objects"),
        ({"stats": {"action": [1]}}, "the stats of episode 0 must be an object of objects"),
        ({"stats": {"action": {"mean": [0, 0]}}}, "min of action is missing"),
        ({"stats": {"action": {"mean": "x"}}}, "is missing in some episodes"),
        ({"episode_index": 1}, "0 is missing"),
        ({"episode_index": 7}, "0 is missing"),
    ],
)
def test_lines_that_hold_no_statistics_are_refused_at_opening(plant, change, fault):
    root = plant("v2.1")
    path = root / names.EPISODE_STATS_LINES_FILE
    lines = path.read_text(encoding="utf-8").strip().split("\n")
    first = json.dumps(json.loads(lines[0]) | change)
    path.write_text("\n".join([first, *lines[1:]]), encoding="utf-8")
    with pytest.raises(DatasetError, match=rf"episodes_stats\.jsonl: .*{fault}"):
        read_dataset_meta(root)


def test_missing_lines_are_noticed_at_opening(plant):
    root = plant("v2.1")
    path = root / names.EPISODE_STATS_LINES_FILE
    lines = path.read_text(encoding="utf-8").strip().split("\n")
    path.write_text("\n".join(lines[:2]), encoding="utf-8")
    with pytest.raises(
        DatasetError,
        match=r"episodes_stats\.jsonl: expected a line for each of 3 episodes, found 2",
    ):
        read_dataset_meta(root)
