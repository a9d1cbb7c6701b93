"""Results reproduce an expectation, or lie above or below it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyhands.evaluation.rollout import EpisodeResult
from manyhands.evaluation.score import Score, score
from manyhands.evaluation.verdict import (
    ABOVE,
    BELOW,
    REPRODUCED,
    verdict,
    verdict_entries,
    verdict_line,
)

PUBLISHED = (59.5, 67.9)
counts = st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
bands = st.tuples(st.floats(0, 100), st.floats(0, 100)).map(lambda ends: (min(ends), max(ends)))


def total(num_successes: int, num_episodes: int) -> Score:
    return score(
        [
            EpisodeResult(index, index, index < num_successes, 0.0, 0.0, 1)
            for index in range(num_episodes)
        ]
    )


@given(counts, bands)
def test_intervals_that_overlap_reproduce_and_others_lie_on_one_side(numbers, band):
    found = total(*numbers)
    low, high = (100 * end for end in found.interval)
    overlaps = max(low, band[0]) <= min(high, band[1])
    assert (verdict(found, band) == REPRODUCED) == overlaps
    assert (verdict(found, band) == ABOVE) == (not overlaps and low > band[0])
    assert (verdict(found, band) == BELOW) == (not overlaps and low < band[0])


@given(counts, bands)
def test_a_rate_within_the_band_reproduces_it_whatever_the_number_of_episodes(numbers, band):
    found = total(*numbers)
    if band[0] <= 100 * found.success <= band[1]:
        assert verdict(found, band) == REPRODUCED


@given(st.integers(1, 60), bands)
def test_more_successes_are_never_a_worse_verdict(num_episodes, band):
    order = [BELOW, REPRODUCED, ABOVE]
    found = [order.index(verdict(total(n, num_episodes), band)) for n in range(num_episodes + 1)]
    assert found == sorted(found)


@pytest.mark.parametrize(
    ("num_successes", "found"),
    [
        (317, "63.4 % [59.1, 67.5] over 500 episodes: reproduced"),
        (400, "80.0 % [76.3, 83.3] over 500 episodes: above"),
        (200, "40.0 % [35.8, 44.4] over 500 episodes: below"),
    ],
)
def test_a_line_has_the_verdict_and_its_numbers(num_successes, found):
    line = verdict_line(total(num_successes, 500), PUBLISHED)
    assert line == f"Success {found} (expected 59.5 to 67.9 %)"


def test_programs_get_the_verdict_with_its_band_and_nothing_without_one():
    found = json.loads(json.dumps(verdict_entries(total(317, 500), PUBLISHED)))
    assert found == {"expected_success": [59.5, 67.9], "verdict": "reproduced"}
    assert verdict_entries(total(317, 500), None) == {}
