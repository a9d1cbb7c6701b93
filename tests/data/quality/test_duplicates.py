"""Near duplicates among episodes."""

import time

import numpy as np
import pytest

from manyhands.data.quality.duplicates import Neighbors, duplicate_findings, resampled

RANGES = np.array([512.0, 512.0])


def shapes_of(demonstrate, number, length=60):
    chance = np.random.default_rng(3)
    return [demonstrate(chance, length)["action"].astype(float) for _ in range(number)]


def test_copies_are_found_at_any_speed_and_the_first_one_stays(demonstrate):
    episodes = shapes_of(demonstrate, 20)
    slow = np.repeat(episodes[2], 2, axis=0) + np.random.default_rng(0).normal(0, 0.5, (120, 2))
    neighbors = Neighbors([resampled(each, RANGES) for each in [*episodes, slow, episodes[5]]])
    found = dict(duplicate_findings(neighbors, np.arange(100, 122)))
    assert set(found) == {20, 21}
    assert found[20].message.startswith("repeats episode 102")
    assert found[21].message.startswith("repeats episode 105") and found[21].value < 1e-6


def test_a_dataset_of_repetitions_is_not_excluded(demonstrate):
    (episode,) = shapes_of(demonstrate, 1)
    neighbors = Neighbors([resampled(episode, RANGES)] * 12)
    findings = [finding for _, finding in duplicate_findings(neighbors, np.arange(12))]
    assert len(findings) == 11 and not any(each.is_worth_excluding for each in findings)


def test_the_nearest_is_that_of_an_exhaustive_search(demonstrate):
    shapes = np.stack([resampled(each, RANGES) for each in shapes_of(demonstrate, 60)])
    flat = shapes.reshape(len(shapes), -1).astype(float)
    distances = np.sqrt(((flat[:, None] - flat) ** 2).mean(-1)) + np.diag(np.full(60, 9))
    neighbors = Neighbors([*shapes])
    assert np.mean(neighbors.place == distances.argmin(1)) > 0.95
    assert (neighbors.distance >= distances.min(1) - 1e-6).all()


@pytest.mark.parametrize("values", [np.zeros((30, 2)), np.ones((1, 2)), np.eye(2) * 512])
def test_short_episodes_and_those_at_rest_are_not_compared(values):
    assert resampled(values, RANGES) is None
    assert resampled(values, np.zeros(2)) is None
    assert not [*duplicate_findings(Neighbors([]), np.arange(0))]


def test_thousands_of_episodes_take_seconds():
    shapes = np.random.default_rng(0).normal(size=(3_000, 32, 6)).astype(np.float32)
    started = time.process_time()
    Neighbors([*shapes])
    assert time.process_time() - started < 20
