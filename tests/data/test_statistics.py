"""Statistics by LeRobot's rules."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from manyhands.data.dataset import open_dataset
from manyhands.data.statistics import (
    aggregate_stats,
    image_stats,
    number_stats,
    sampled_frames,
    subsampled,
)
from manyhands.lerobot_format.dataset.meta import read_stats
from manyhands.types import Stats


def episode_stats(root: Path) -> list[Stats]:
    """Per-episode statistics as LeRobot's recorder stored them."""
    (file,) = (root / "meta" / "episodes").glob("*/*.parquet")
    parts: list[Stats] = []
    for row in pq.read_table(file).to_pylist():
        part: Stats = {}
        for column in (name for name in row if name.startswith("stats/")):
            _, feature, stat = column.split("/")
            part.setdefault(feature, {})[stat] = np.array(row[column])
        parts.append(part)
    return parts


def test_numbers_known_from_lerobot_come_out():
    stats = number_stats(np.arange(12))
    expected = {
        "mean": 5.5,
        "std": 3.452052529534663,
        "q01": -1e-10,
        "q10": 0.9992399999181679,
        "q50": 5.00059999999092,
        "q90": 10.000760000081831,
        "q99": 10.999736000099995,
        "min": 0,
        "max": 11,
        "count": 12,
    }
    assert stats.keys() == expected.keys()
    for name, value in expected.items():
        assert stats[name] == pytest.approx([value], rel=1e-15, abs=1e-18)


@pytest.mark.parametrize("name", ["many_small_files", "two_cameras_video", "images_in_parquet"])
def test_episodes_have_the_statistics_lerobot_stored(shared, name):
    root = shared / "fixtures" / "datasets" / name
    dataset = open_dataset(root=root)
    whole = dataset.batch(range(len(dataset)))
    for (start, stop), stored in zip(dataset.episode_bounds, episode_stats(root), strict=True):
        for key in stored.keys() - set(dataset.info.video_keys) - {"timestamp"}:
            values = whole[key][start:stop].numpy()
            if key == "observation.image":
                pictures = values.transpose(0, 2, 3, 1)
                stats = image_stats([pictures[n] for n in sampled_frames(stop - start)])
            else:
                stats = number_stats(values)
            for stat, expected in stored[key].items():
                # LeRobot sums in single precision, which shows in the spread of many pixels.
                rtol = 3e-3 if stat == "std" else 1e-5
                np.testing.assert_allclose(stats[stat], expected, rtol=rtol, atol=2e-6)


@pytest.mark.parametrize("name", ["fixtures/datasets/two_cameras_video", "data/pusht"])
def test_the_dataset_has_the_statistics_lerobot_folded_together(shared, name):
    together, expected = aggregate_stats(episode_stats(shared / name)), read_stats(shared / name)
    assert together.keys() == expected.keys()
    for feature, stats in expected.items():
        for stat, value in stats.items():
            assert together[feature][stat].shape == value.shape
            np.testing.assert_allclose(together[feature][stat], value, rtol=1e-6, atol=1e-6)


def test_folding_equals_the_statistics_of_all_values():
    values = np.random.default_rng(0).normal(size=(90, 3))
    parts = [{"x": number_stats(part)} for part in np.split(values, [10, 25])]
    together = aggregate_stats(parts)["x"]
    np.testing.assert_allclose(together["mean"], values.mean(axis=0))
    np.testing.assert_allclose(together["std"], values.std(axis=0))
    assert together["count"].tolist() == [90]


def test_the_spread_of_values_far_from_zero_is_not_lost():
    values = (1000 + np.random.default_rng(0).normal(size=(5000, 1)) / 100).astype(np.float32)
    np.testing.assert_allclose(number_stats(values)["std"], values.std(dtype=np.float64), rtol=1e-3)


def test_quantiles_that_one_part_lacks_are_left_out():
    parts = [{"x": number_stats(np.arange(size))} for size in (4, 6)]
    del parts[0]["x"]["q50"]
    assert "q50" not in aggregate_stats(parts)["x"]
    assert "q10" in aggregate_stats(parts)["x"]


def test_one_frame_has_its_value_as_every_quantile():
    stats = number_stats(np.array([[2.0, -3.0]]))
    assert stats["q01"].tolist() == stats["q99"].tolist() == [2.0, -3.0]
    assert stats["std"].tolist() == [0.0, 0.0]


def test_leading_dimensions_are_folded_into_the_samples():
    stats = number_stats(np.arange(24.0).reshape(4, 2, 3))
    assert stats["min"].tolist() == [0, 1, 2]
    assert stats["count"].tolist() == [4]


@pytest.mark.parametrize(
    ("num_frames", "expected"), [(1, 1), (100, 100), (464, 100), (700, 136), (10**6, 10_000)]
)
def test_pictures_are_sampled_evenly(num_frames, expected):
    chosen = sampled_frames(num_frames)
    assert len(chosen) == expected
    assert (chosen[0], chosen[-1]) == (0, num_frames - 1)
    assert (np.diff(chosen) > 0).all()


def test_large_pictures_are_thinned():
    assert subsampled(np.zeros((480, 640, 3))).shape == (120, 160, 3)
    assert subsampled(np.zeros((96, 299, 3))).shape == (96, 299, 3)
