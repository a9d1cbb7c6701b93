"""Success rates and how sure they are."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyhands.evaluation.rollout import EpisodeResult
from manyhands.evaluation.score import score, wilson_interval


def test_wilson_interval_matches_published_values():
    assert wilson_interval(45, 50) == pytest.approx((0.7864, 0.9565), abs=1e-4)
    assert wilson_interval(0, 50) == pytest.approx((0.0, 0.0713), abs=1e-4)
    assert wilson_interval(50, 50) == pytest.approx((0.9287, 1.0), abs=1e-4)


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_interval_holds_the_rate_and_stays_a_share(counts):
    num_successes, num_trials = counts
    low, high = wilson_interval(num_successes, num_trials)
    assert 0 <= low <= num_successes / num_trials + 1e-12
    assert num_successes / num_trials - 1e-12 <= high <= 1


def test_a_score_averages_over_episodes():
    results = [
        EpisodeResult(index=0, seed=0, success=True, sum_reward=6.0, max_reward=1.0, length=40),
        EpisodeResult(index=1, seed=1, success=False, sum_reward=2.0, max_reward=0.5, length=80),
    ]
    summary = score(results)
    assert (summary.success, summary.num_episodes) == (0.5, 2)
    assert (summary.mean_sum_reward, summary.mean_max_reward) == (4.0, 0.75)
    assert summary.interval[0] < 0.5 < summary.interval[1]


def test_a_crash_is_a_failure_but_no_reward():
    ran = EpisodeResult(index=0, seed=0, success=True, sum_reward=-6, max_reward=-1, length=40)
    crash = replace(ran, success=False, sum_reward=0, max_reward=0, length=0, error="broken")
    summary = score([ran, crash])
    assert summary.success == 0.5
    assert (summary.mean_sum_reward, summary.mean_max_reward, summary.mean_length) == (-6, -1, 40)
    assert score([crash]).mean_max_reward == 0
