"""Statistics of everything that is read."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from manyhands.data.dataset import open_dataset
from manyhands.data.read_options import ReadOptions
from manyhands.data.statistics import complete_stats

STATS = "meta/stats.json"
EPISODES = "meta/episodes/chunk-000/file-000.parquet"


def drop_episode_stats(root) -> None:
    table = pq.read_table(root / EPISODES)
    kept = [name for name in table.column_names if not name.startswith("stats/")]
    pq.write_table(table.select(kept), root / EPISODES)


def opened(root, home, episodes=None):
    return open_dataset(root=root, episodes=episodes, reading=ReadOptions(home=home))


def assert_alike(one, other, key, tolerance=1e-6):
    assert one.keys() >= {"min", "max", "mean", "std", "count"}
    for name in other:
        assert np.allclose(one[name], other[name], rtol=tolerance, atol=tolerance), (key, name)


def test_recorded_statistics_are_taken_as_they_are(plain_root, tmp_path):
    dataset = opened(plain_root, tmp_path)
    stats = complete_stats(dataset, of_chosen_episodes=False)
    assert stats.keys() == dataset.stats.keys()
    assert not (tmp_path / "stats").exists()


def test_missing_statistics_are_computed_with_progress_and_kept(damaged_root, tmp_path):
    recorded = opened(damaged_root, tmp_path).stats
    (damaged_root / STATS).unlink()
    drop_episode_stats(damaged_root)
    told = []
    computed = complete_stats(opened(damaged_root, tmp_path), False, lambda *now: told.append(now))
    assert told == [(1, 2), (2, 2)]
    assert computed.keys() == recorded.keys()
    for key, stats in recorded.items():
        # Video is compressed after its statistics are recorded.
        assert_alike(computed[key], stats, key, 0.05 if "images.top" in key else 1e-5)
    again = complete_stats(opened(damaged_root, tmp_path), False, lambda *now: told.append(now))
    assert len(told) == 2
    for key, stats in computed.items():
        assert_alike(again[key], stats, key, 0)
    assert not (damaged_root / STATS).exists()


def test_only_what_is_missing_is_computed(damaged_root, tmp_path):
    document = json.loads((damaged_root / STATS).read_text())
    del document["action"]
    (damaged_root / STATS).write_text(json.dumps(document))
    stats = complete_stats(opened(damaged_root, tmp_path), of_chosen_episodes=False)
    (kept,) = (tmp_path / "stats").glob("*.json")
    assert json.loads(kept.read_text()).keys() == {"action"}
    assert stats["action"]["count"].tolist() == [5]


@pytest.mark.parametrize("has_episode_stats", [True, False])
def test_statistics_of_chosen_episodes_know_nothing_of_the_others(
    damaged_root, tmp_path, has_episode_stats
):
    if not has_episode_stats:
        drop_episode_stats(damaged_root)
    dataset = opened(damaged_root, tmp_path, episodes=[1])
    stats = complete_stats(dataset, of_chosen_episodes=True)
    values = dataset.batch([0, 1])["observation.state"].numpy()
    assert stats["observation.state"]["count"].tolist() == [2]
    assert np.allclose(stats["observation.state"]["mean"], values.mean(axis=0), atol=1e-6)
    assert np.allclose(stats["observation.state"]["max"], values.max(axis=0), atol=1e-6)


def test_a_changed_dataset_is_computed_again(damaged_root, tmp_path):
    (damaged_root / STATS).unlink()
    first = complete_stats(opened(damaged_root, tmp_path), False)["action"]["max"]
    path = damaged_root / "data/chunk-000/file-000.parquet"
    table = pq.read_table(path)
    doubled = [[2 * value for value in row] for row in table["action"].to_pylist()]
    index = table.column_names.index("action")
    pq.write_table(table.set_column(index, "action", [doubled]), path)
    assert not np.allclose(
        complete_stats(opened(damaged_root, tmp_path), False)["action"]["max"], first
    )


def test_damaged_or_unwritable_keepings_are_done_without(damaged_root, tmp_path):
    (damaged_root / STATS).unlink()
    expected = complete_stats(opened(damaged_root, tmp_path), False)["action"]["mean"]
    for kept in (tmp_path / "stats").glob("*.json"):
        kept.write_text("{]")
    assert np.array_equal(
        complete_stats(opened(damaged_root, tmp_path), False)["action"]["mean"], expected
    )
