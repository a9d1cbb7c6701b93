"""Statistics are taken over where they hold, and computed where they do not."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from manyhands.data.episodes import Source, select_episodes
from manyhands.data.writing.copy_clips import EpisodeStats
from manyhands.data.writing.copy_rows import EpisodeRows
from manyhands.lerobot_format.dataset.episode_stats import read_episode_stats
from manyhands.lerobot_format.dataset.meta import read_dataset_meta

EPISODES = "meta/episodes/chunk-000/file-000.parquet"
TOP = "observation.images.top"


def stats_of(root, episode) -> dict:
    """Statistics of an episode that is copied behind 100 frames of others."""
    meta = read_dataset_meta(root)
    source = Source(root, meta, select_episodes(meta.episodes, [episode]))
    columns = EpisodeRows(source, meta.info.features).read(episode)
    columns["index"] = pa.array(np.arange(len(columns["index"])) + 100)
    return EpisodeStats(source, meta.info.features, [episode]).of(episode, columns)


def stored_of(root, episode) -> dict:
    (stats,) = read_episode_stats(root, read_dataset_meta(root).info, np.array([episode]))
    return stats


def change_columns(root, change) -> None:
    table = pq.read_table(root / EPISODES)
    pq.write_table(change(table), root / EPISODES)


def assert_equal(ours: dict, theirs: dict, tolerance: float = 0) -> None:
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        assert value.shape == theirs[name].shape, name
        assert value == pytest.approx(theirs[name], rel=tolerance, abs=tolerance), name


def test_stored_statistics_are_taken_over(plain_root):
    ours, stored = stats_of(plain_root, 1), stored_of(plain_root, 1)
    assert ours.keys() == stored.keys()
    for key in ours.keys() - {"index", "episode_index", "task_index"}:
        assert_equal(ours[key], stored[key])


def test_statistics_of_what_is_numbered_anew_are_computed(plain_root):
    ours = stats_of(plain_root, 1)
    assert (ours["index"]["min"].item(), ours["index"]["max"].item()) == (100, 102)
    assert ours["index"]["mean"].tolist() == [101]


def test_everything_is_computed_where_nothing_is_stored(record, tmp_path):
    root = tmp_path / "dataset"
    record(root, (5, 3))
    stored = stored_of(root, 1)
    change_columns(
        root,
        lambda table: table.select(
            [name for name in table.column_names if not name.startswith("stats/")]
        ),
    )
    ours = stats_of(root, 1)
    assert ours.keys() == stored.keys()
    for key in ours.keys() - {TOP, "index", "episode_index", "task_index"}:
        assert_equal(ours[key], stored[key], tolerance=1e-6)
    # Recorded before compression and computed after it.
    assert ours[TOP]["mean"] == pytest.approx(stored[TOP]["mean"], abs=0.03)
    assert ours[TOP]["mean"].shape == (3, 1, 1)
    assert ours[TOP]["count"].tolist() == [3]


def test_statistics_of_another_shape_are_computed_again(record, tmp_path):
    """Older versions keep the whole shape of a feature where newer ones keep its last axis."""
    root = tmp_path / "dataset"
    record(root, (5, 3))
    stored = stored_of(root, 1)

    def widen(table: pa.Table) -> pa.Table:
        place = table.column_names.index("stats/observation.grid/mean")
        wide = [[[0.0] * 3] * 2] * table.num_rows
        return table.set_column(place, table.column_names[place], pa.array(wide))

    change_columns(root, widen)
    assert_equal(stats_of(root, 1)["observation.grid"], stored["observation.grid"], 1e-6)


def test_incomplete_statistics_are_computed_again(record, tmp_path):
    root = tmp_path / "dataset"
    record(root, (5, 3))
    stored = stored_of(root, 0)
    change_columns(root, lambda table: table.drop_columns(["stats/action/std"]))
    assert_equal(stats_of(root, 0)["action"], stored["action"], tolerance=1e-6)
