"""meta/episodes."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from manyhands.errors import DatasetError
from manyhands.lerobot_format.dataset_info import DatasetInfo, Feature, read_info
from manyhands.lerobot_format.episodes import (
    EpisodeRecord,
    Placement,
    read_episodes,
    write_episodes,
)

INFO = DatasetInfo("v3.0", 10, {"top": Feature("video", (3, 4, 4)), "x": Feature("int8", (1,))})
FILE = "meta/episodes/chunk-000/file-000.parquet"


def make_record(start: int, stop: int, file: int) -> EpisodeRecord:
    stats = {"top": {"mean": np.ones((3, 1, 1)), "count": np.array([2])}}
    videos = {"top": Placement(0, file, start / 10, stop / 10)}
    return EpisodeRecord(["a", "b"], start, stop, (0, file), stats, videos)


@pytest.fixture
def root(tmp_path) -> Path:
    write_episodes(tmp_path, [make_record(0, 4, 0), make_record(4, 7, 0), make_record(7, 9, 2)])
    return tmp_path


def edit(root: Path, name: str, values: list) -> None:
    table = pq.read_table(root / FILE)
    index = table.column_names.index(name)
    pq.write_table(table.set_column(index, name, pa.array(values)), root / FILE)


def test_episodes_come_back_as_they_were_written(root):
    episodes = read_episodes(root, INFO)
    assert len(episodes) == 3
    assert (episodes.from_index.tolist(), episodes.to_index.tolist()) == ([0, 4, 7], [4, 7, 9])
    assert episodes.tasks == [["a", "b"]] * 3
    assert episodes.data_files.paths == (
        "data/chunk-000/file-000.parquet",
        "data/chunk-000/file-002.parquet",
    )
    assert episodes.data_files.of_episode.tolist() == [0, 0, 1]
    assert episodes.video_files["top"].of_episode.tolist() == [0, 0, 1]
    assert episodes.video_starts_s["top"].tolist() == [0, 0.4, 0.7]


def test_episodes_follow_each_other_in_their_files(root):
    assert read_episodes(root, INFO).first_rows_in_file().tolist() == [0, 4, 0]
    edit(root, "data/file_index", [1, 0, 1])
    assert read_episodes(root, INFO).first_rows_in_file().tolist() == [0, 0, 4]


def test_statistics_are_nested_lists_of_doubles_and_counts_integers(root):
    schema = pq.read_schema(root / FILE)
    nested = pa.list_(pa.list_(pa.list_(pa.float64())))
    assert schema.field("stats/top/mean").type == nested
    assert schema.field("stats/top/count").type == pa.list_(pa.int64())


def test_lerobots_episodes_are_read(shared):
    root = shared / "fixtures" / "datasets" / "many_small_files"
    episodes = read_episodes(root, read_info(root))
    assert episodes.to_index.tolist() == [5, 11, 18]
    camera = "observation.images.top"
    assert episodes.video_files[camera].paths[2] == f"videos/{camera}/chunk-000/file-002.mp4"
    assert episodes.video_starts_s[camera].tolist() == [0, 0, 0]


def test_episodes_may_be_spread_over_files_of_different_writers(root):
    table = pq.read_table(root / FILE)
    narrow = table.slice(0, 1).cast(
        pa.schema(
            [
                field.with_type(pa.int32()) if field.type == pa.int64() else field
                for field in table.schema
            ]
        )
    )
    for number, part in enumerate([table.slice(2), narrow, table.slice(1, 1)]):
        pq.write_table(part, root / "meta" / "episodes" / "chunk-000" / f"file-00{number}.parquet")
    assert read_episodes(root, INFO).to_index.tolist() == [4, 7, 9]


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("episode_index", [0, 1, 3], "must be numbered 0 to 2"),
        ("episode_index", [0, 1, 1], "must be numbered 0 to 2"),
        ("dataset_from_index", [0, 5, 7], "episode 1 covers frames 5 to 7, but must begin at 4"),
        ("dataset_to_index", [4, 3, 9], "episode 1 covers frames 4 to 3"),
        ("data/file_index", [0, -1, 2], "negative number -1"),
        ("data/file_index", [0, None, 2], "must hold a number for every episode"),
        ("data/file_index", ["a", "b", "c"], "must hold a number for every episode"),
        ("videos/top/from_timestamp", [0.0, float("nan"), 0.7], "must hold a number"),
    ],
)
def test_tables_that_contradict_themselves_are_refused(root, name, values, message):
    edit(root, name, values)
    with pytest.raises(DatasetError, match=f"meta/episodes: .*{message}"):
        read_episodes(root, INFO)


def test_a_missing_column_is_named(root):
    table = pq.read_table(root / FILE)
    pq.write_table(table.drop_columns(["videos/top/file_index"]), root / FILE)
    with pytest.raises(DatasetError, match=f"{FILE} has no column videos/top/file_index"):
        read_episodes(root, INFO)


def test_fewer_episodes_than_counted_are_noticed(root):
    info = DatasetInfo("v3.0", 10, INFO.features, total_episodes=4)
    with pytest.raises(DatasetError, match=r"info\.json counts 4 episodes, here are 3"):
        read_episodes(root, info)
