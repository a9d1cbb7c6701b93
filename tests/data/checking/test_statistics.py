"""Statistics against the numbers they are of."""

import numpy as np
import pytest

STATS = "meta/stats.json"
STATE = "observation.state"


def changed(tiny_root, change_json, check, change):
    """The findings about statistics after a change to them."""
    change_json(tiny_root / STATS, change)
    result = check(tiny_root)
    assert {finding.check for finding in result.findings} <= {"statistics"}
    return result.of_check("statistics")


def test_none_at_all_is_worth_a_warning(tiny_root, check):
    (tiny_root / STATS).unlink()
    (found,) = check(tiny_root).of_check("statistics")
    assert (found.severity, found.key, found.file) == ("warning", None, STATS)


def test_a_feature_without_any_is_worth_a_warning(tiny_root, change_json, check):
    (found,) = changed(tiny_root, change_json, check, lambda stats: stats.pop("action"))
    assert (found.severity, found.key) == ("warning", "action")


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("mean", [float("nan"), 0.0], "mean of observation.state is not finite"),
        ("max", [float("inf"), 0.0], "max of observation.state is not finite"),
        ("std", [-1.0, 1.0], "std of observation.state is negative"),
        ("std", [0.0, 1.0], "std of observation.state is 0, but its values differ"),
    ],
)
def test_what_would_spoil_training_is_bad(tiny_root, change_json, check, name, value, told):
    found = changed(tiny_root, change_json, check, lambda stats: stats[STATE].update({name: value}))
    assert (found[0].severity, found[0].episode) == ("bad", None)
    assert told in found[0].message


def test_a_mean_outside_its_extremes_is_out_of_order(tiny_root, change_json, check):
    found = changed(
        tiny_root, change_json, check, lambda stats: stats[STATE].update(mean=[50.0, 0.0])
    )
    assert {each.severity for each in found} == {"warning"}
    assert "not in order" in found[0].message


@pytest.mark.parametrize("name", ["min", "max", "mean"])
def test_statistics_of_other_numbers_are_worth_a_warning(tiny_root, change_json, check, name):
    def shift(stats):
        low, high = np.array(stats[STATE]["min"]), np.array(stats[STATE]["max"])
        by = {"min": low - high, "max": high - low, "mean": (high - low) / 50}[name]
        stats[STATE][name] = (np.array(stats[STATE][name]) + by).tolist()

    (found,) = changed(tiny_root, change_json, check, shift)
    assert (found.severity, found.key) == ("warning", STATE)
    assert f"{name} of {STATE} is " in found.message and "its values give" in found.message


def test_statistics_of_all_are_not_held_against_some_episodes(tiny_root, check):
    assert check(tiny_root, [1]).findings == ()


def test_features_nobody_asks_for_may_lack_statistics(tiny_root, check):
    (tiny_root / STATS).write_text("{}")
    found = check(tiny_root, keys=[STATE]).of_check("statistics")
    assert len(found) == 1


def test_numbers_that_never_change_are_worth_a_warning(tiny_root, check, rewrite):
    file = tiny_root / "data/chunk-000/file-000.parquet"
    rewrite(file, "action", lambda values: [[1.0, value] for _, value in values])
    rewrite(file, STATE, lambda values: [[2.0, 3.0]] * len(values))
    messages = [finding.message for finding in check(tiny_root).of_check("numbers")]
    assert messages == [
        f"{STATE} is constant",
        "action is constant at index 0",
    ]
