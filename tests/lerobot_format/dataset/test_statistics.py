"""Statistics as they are stored and folded together."""

import numpy as np
import pytest

from manyhands.lerobot_format.dataset.features import Feature
from manyhands.lerobot_format.dataset.statistics import aggregate_stats, parse_stats
from manyhands.types import Stats

FEATURES = {
    "x": Feature("float32", (2,)),
    "grid": Feature("float32", (2, 3)),
    "top": Feature("video", (4, 6, 3)),
}


def part(center: float, number: float, **others: object) -> dict[str, np.ndarray]:
    around = {"min": [center - 1], "max": [center + 1], "mean": [center], "std": [1.0]}
    values = {**around, "count": [number], **others}
    return {name: np.array(value) for name, value in values.items()}


def test_statistics_are_arrays_of_at_least_one_dimension():
    stats = parse_stats({"x": {"mean": 2, "count": [3]}}, FEATURES)["x"]
    assert (stats["mean"].tolist(), stats["count"].tolist()) == ([2], [3])


def test_the_extremes_of_truth_values_become_numbers():
    stats = parse_stats({"done": {"min": [False], "max": [True]}}, {})["done"]
    assert (stats["min"].tolist(), stats["max"].tolist()) == ([0.0], [1.0])
    assert stats["max"].dtype == np.float64


@pytest.mark.parametrize("key", ["x", "grid", "top", "undeclared"])
def test_shapes_of_all_recorders_are_taken(key):
    by_axis = {"x": [0, 0], "grid": [0, 0, 0], "top": [[[0]], [[0]], [[0]]], "undeclared": [[0]]}
    whole = {"grid": [[0, 0, 0], [0, 0, 0]], "x": [[0, 0]] * 50}
    for value in (by_axis[key], [0.5], whole.get(key, 1)):
        assert parse_stats({key: {"mean": value}}, FEATURES)


@pytest.mark.parametrize(
    ("document", "fault"),
    [
        ([], "statistics must be an object"),
        (None, "statistics must be an object"),
        ({"x": [1]}, "the statistics of x must be an object"),
        ({"x": {"mean": "1"}}, "mean of x is '1', which is not a number"),
        ({"x": {"mean": None}}, "mean of x is None"),
        ({"x": {"mean": []}}, "mean of x is"),
        ({"x": {"mean": [1, [2]]}}, "which has no valid shape"),
        ({"x": {"mean": [1, None]}}, "which is not a number"),
        ({"x": {"mean": [10**400, 0.5]}}, "which is not a number"),
        ({"x": {"mean": [10**40]}}, "which is not a number"),
        ({"x": {"mean": {"a": 1}}}, "which is not a number"),
        ({"x": {"mean": [1, 2, 3]}}, r"mean of x has the unexpected shape \[3\]"),
        ({"grid": {"mean": [1, 2]}}, "mean of grid has the unexpected shape"),
        ({"top": {"mean": [[[0]], [[0]]]}}, "mean of top has the unexpected shape"),
        ({"x": {"count": [1, 2]}}, "count of x has the unexpected shape"),
    ],
)
def test_what_fits_no_feature_is_refused_by_name(document, fault):
    with pytest.raises(ValueError, match=fault):
        parse_stats(document, FEATURES)


def test_folding_weighs_by_the_counts():
    together = aggregate_stats([{"x": part(0, 1)}, {"x": part(4, 3)}])["x"]
    assert together["mean"].tolist() == [3]
    assert together["std"].tolist() == [2]
    assert (together["min"].tolist(), together["max"].tolist()) == ([-1], [5])
    assert together["count"].tolist() == [4]


def test_a_feature_is_folded_from_the_episodes_that_have_it():
    parts: list[Stats] = [{"x": part(0, 1)}, {"y": part(2, 1)}, {}]
    assert {key: each["mean"].tolist() for key, each in aggregate_stats(parts).items()} == {
        "x": [0],
        "y": [2],
    }
    assert aggregate_stats([]) == {}


def test_episodes_without_frames_do_not_count():
    nothing = part(float("nan"), 0)
    assert aggregate_stats([{"x": nothing}, {"x": part(2, 5)}])["x"]["mean"].tolist() == [2]


@pytest.mark.parametrize(
    ("other", "fault"),
    [
        (part(0, 0), "count of x must be"),
        (part(0, -1), "count of x must be"),
        (part(0, float("nan")), "count of x must be"),
        (part(0, 1, mean=[0, 0]), "mean of x in some episodes is .*, which has no valid shape"),
        ({"mean": np.zeros(1)}, "min of x is missing"),
    ],
)
def test_parts_that_cannot_be_folded_are_refused_by_name(other, fault):
    parts = [{"x": other}] if fault.startswith("count") else [{"x": part(0, 1)}, {"x": other}]
    with pytest.raises(ValueError, match=fault):
        aggregate_stats(parts)
