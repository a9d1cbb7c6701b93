"""Numbers of any kind are judged without an exception, and without false alarms."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

KINDS = ("constant", "walk", "jump", "nan", "some nan", "huge", "noise")
LENGTHS, NUM_ALIKE = (1, 5, 40), 9


def episode(kind, length, seed):
    chance = np.random.default_rng(seed)
    values = chance.normal(size=(length, 2)).cumsum(axis=0)
    match kind:
        case "constant":
            values[:] = 7.0
        case "jump":
            values[length // 2 :] += 1e4
        case "nan":
            values[:] = np.nan
        case "some nan":
            values[chance.random((length, 2)) < 0.3] = np.nan
        case "huge":
            values *= 3e37
        case "noise":
            values = chance.normal(size=(length, 2))
    return values


@pytest.fixture(scope="module")
def any_numbers(write_numbers, tmp_path_factory):
    """A dataset of all kinds and lengths, several episodes of each."""
    episodes = [
        episode(kind, length, seed)
        for kind in KINDS
        for length in LENGTHS
        for seed in range(NUM_ALIKE)
    ]
    return write_numbers(tmp_path_factory.mktemp("numbers") / "dataset", episodes)


TOTAL = len(KINDS) * len(LENGTHS) * NUM_ALIKE


@settings(max_examples=25)
@given(chosen=st.sets(st.integers(0, TOTAL - 1), min_size=1, max_size=14))
def test_any_numbers_give_a_record_per_episode(any_numbers, judge, chosen):
    quality = judge(any_numbers, sorted(chosen))
    assert [each.episode for each in quality.episodes] == sorted(chosen)
    json.dumps(quality.document(), allow_nan=False)


@pytest.mark.parametrize("number", [1, NUM_ALIKE])
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("kind", ["constant", "walk", "nan", "some nan", "huge", "noise"])
def test_alike_episodes_raise_no_alarm(any_numbers, judge, kind, length, number):
    first = (KINDS.index(kind) * len(LENGTHS) + LENGTHS.index(length)) * NUM_ALIKE
    quality = judge(any_numbers, range(first, first + number))
    assert [each.findings for each in quality.episodes if each.is_worth_excluding] == []


def test_a_joint_that_few_episodes_use_raises_no_alarm(demonstrate, write_numbers, judge, tmp_path):
    chance = np.random.default_rng(5)
    episodes = [demonstrate(chance, 60)["observation.state"] for _ in range(16)]
    for values in episodes[2:]:
        values[:, 1] = 100.0
    quality = judge(write_numbers(tmp_path / "dataset", episodes))
    assert quality.exclude_episodes == []


def test_the_nearest_episode_is_given_by_its_number(demonstrate, write_numbers, judge, tmp_path):
    chance = np.random.default_rng(6)
    episodes = [demonstrate(chance, 60)["action"] for _ in range(10)]
    root = write_numbers(tmp_path / "dataset", [*episodes, episodes[4]])
    quality = judge(root, [0, 3, 4, 5, 9, 10])
    last = quality.episodes[-1]
    assert (last.nearest_episode, last.nearest_distance) == (4, pytest.approx(0, abs=1e-6))
    assert quality.exclude_episodes == [10]
