"""meta/episodes."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from manyhands.errors import DatasetError
from manyhands.lerobot_format.dataset.episodes import (
    EpisodeRecord,
    Placement,
    read_episodes,
    write_episodes,
)
from manyhands.lerobot_format.dataset.info import DatasetInfo, Feature, read_info

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
        ("episode_index", [0, 1, 3], "must be numbered 0 to 2, but 2 is missing"),
        ("episode_index", [0, 1, 1], "must be numbered 0 to 2, but 1 appears twice"),
        ("length", [4, 0, 2], "episode 1 has length 0, but covers frames 4 to 7"),
        ("length", [4, -3, 2], "column length contains -3"),
        ("dataset_from_index", [0, 5, 7], "episode 1 has length 3, but covers frames 5 to 7"),
        ("dataset_to_index", [4, 3, 9], "episode 1 has length 3, but covers frames 4 to 3"),
        ("data/file_index", [0, -1, 2], "column data/file_index contains -1"),
        ("data/file_index", [0, 0.5, 2], "contains 0.5, not an integer"),
        ("data/file_index", [0, None, 2], "must have a number in every row"),
        ("data/file_index", ["a", "b", "c"], "must have a number in every row"),
        ("data/file_index", [[0], [0], [2]], "must have a number in every row"),
        ("videos/top/from_timestamp", [0.0, float("nan"), 0.7], "contains nan"),
        ("tasks", [["a"], [None], ["b"]], "tasks must be a list of strings for every episode"),
        ("tasks", [[1], [2], [3]], "column tasks must contain strings"),
    ],
)
def test_tables_that_contradict_themselves_are_refused(root, name, values, message):
    edit(root, name, values)
    with pytest.raises(DatasetError, match=rf"meta/episodes\S*: .*{message}"):
        read_episodes(root, INFO)


def test_a_missing_column_is_named(root):
    table = pq.read_table(root / FILE)
    pq.write_table(table.drop_columns(["videos/top/file_index"]), root / FILE)
    with pytest.raises(DatasetError, match=f"{FILE} has no column videos/top/file_index"):
        read_episodes(root, INFO)


def test_overlapping_episodes_are_named(root):
    edit(root, "dataset_from_index", [0, 3, 7])
    edit(root, "length", [4, 4, 2])
    with pytest.raises(DatasetError, match="episode 1 covers frames 3 to 7, but must start at 4"):
        read_episodes(root, INFO)


def test_an_episode_without_frames_is_read(root):
    edit(root, "dataset_to_index", [4, 4, 9])
    edit(root, "dataset_from_index", [0, 4, 4])
    edit(root, "length", [4, 0, 5])
    assert read_episodes(root, INFO).lengths.tolist() == [4, 0, 5]


def test_columns_may_come_in_any_order_with_others_between(root):
    table = pq.read_table(root / FILE)
    shuffled = table.select(sorted(table.column_names, reverse=True))
    pq.write_table(shuffled.append_column("quality", [["good", "bad", None]]), root / FILE)
    assert read_episodes(root, INFO).to_index.tolist() == [4, 7, 9]


def test_files_that_systems_leave_beside_others_are_passed_over(root):
    (root / FILE).with_name("._file-000.parquet").write_bytes(b"\0\5")
    (root / "meta" / "episodes" / ".DS_Store").write_bytes(b"\0")
    (root / FILE).with_name("notes.txt").write_text("x")
    assert len(read_episodes(root, INFO)) == 3


def test_a_column_that_comes_twice_is_refused(root):
    table = pq.read_table(root / FILE)
    pq.write_table(table.append_column("length", table["length"]), root / FILE)
    with pytest.raises(DatasetError, match=f"{FILE} is damaged: duplicate columns length"):
        read_episodes(root, INFO)


def test_a_folder_without_episodes_is_refused(root):
    pq.write_table(pq.read_table(root / FILE).slice(0, 0), root / FILE)
    with pytest.raises(DatasetError, match="meta/episodes: there are no episodes"):
        read_episodes(root, INFO)
    (root / FILE).unlink()
    with pytest.raises(DatasetError, match="meta/episodes contains no episodes"):
        read_episodes(root, INFO)
    with pytest.raises(DatasetError, match="meta/episodes cannot be read: No such file"):
        read_episodes(root / "elsewhere", INFO)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"stats": {}}, "episode 1 has other columns than episode 0: stats/top/count, stats/top/"),
        ({"stats": {"top": {"mean": np.ones(3), "count": np.array([2])}}}, r"0: stats/top/mean\."),
        ({"videos": {}}, "episode 1 has other columns than episode 0: videos/top/chunk_index"),
    ],
)
def test_episodes_of_different_columns_are_not_written(tmp_path, change, fault):
    records = [make_record(0, 4, 0), replace(make_record(4, 7, 0), **change)]
    with pytest.raises(DatasetError, match=fault):
        write_episodes(tmp_path, records)
    assert not list(tmp_path.iterdir())


def test_no_episodes_are_not_written(tmp_path):
    with pytest.raises(DatasetError, match="needs at least one episode"):
        write_episodes(tmp_path, [])


def test_tasks_may_be_missing_bare_or_null(root):
    edit(root, "tasks", ["a", None, "b"])
    assert read_episodes(root, INFO).tasks == [["a"], [], ["b"]]
    table = pq.read_table(root / FILE)
    pq.write_table(table.drop_columns(["tasks"]), root / FILE)
    assert read_episodes(root, INFO).tasks == [[], [], []]
