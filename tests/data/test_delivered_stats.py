"""Statistics as they fit what is delivered."""

import numpy as np

from manyhands.data.delivered_stats import delivered_stats
from manyhands.data.read_options import ReadOptions
from manyhands.lerobot_format.dataset.features import Feature

GRID = {"observation.grid": Feature("float32", (2, 3))}
STATS = {"observation.grid": {"mean": np.array([1.0, 2.0, 3.0]), "count": np.array([9])}}


def test_statistics_of_a_nested_feature_become_those_of_its_vector():
    stats = delivered_stats(STATS, GRID, ReadOptions(as_vectors=True))["observation.grid"]
    assert stats["mean"].tolist() == [1, 2, 3, 1, 2, 3]
    assert stats["count"].tolist() == [9]


def test_without_vectors_they_stay_and_are_renamed():
    reading = ReadOptions(rename_map={"observation.grid": "grid"})
    assert delivered_stats(STATS, GRID, reading) == {"grid": STATS["observation.grid"]}


def test_a_shape_that_does_not_fit_is_left_to_the_check():
    odd = {"observation.grid": {"mean": np.zeros((5, 3))}}
    found = delivered_stats(odd, GRID, ReadOptions(as_vectors=True))
    assert found["observation.grid"]["mean"].shape == (5, 3)
