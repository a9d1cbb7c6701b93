"""The statistics of a comparison, against enumeration, and its words."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyhands.evaluation.comparison import (
    Comparison,
    Pairs,
    binomial_p,
    bootstrap_interval,
    compare,
    success_verdict,
)
from manyhands.evaluation.rollout import EpisodeResult

counts = st.integers(0, 40)
pairs = st.builds(Pairs, counts, counts, counts, st.integers(1, 40))


def episodes(successes, rewards=None):
    rewards = rewards or [float(each) for each in successes]
    return [
        EpisodeResult(place, 1000 + place, success, reward, reward, 9)
        for place, (success, reward) in enumerate(zip(successes, rewards, strict=True))
    ]


@given(st.integers(0, 11).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_p_value_is_the_share_of_coin_tosses_at_least_as_uneven(drawn):
    first, total = drawn
    tosses = [sum(each) for each in product((0, 1), repeat=total)]
    extreme = [heads for heads in tosses if abs(2 * heads - total) >= abs(2 * first - total)]
    assert binomial_p(first, total - first) == pytest.approx(len(extreme) / len(tosses))


@pytest.mark.parametrize(("only_a", "only_b"), [(0, 0), (3, 3), (2000, 1900), (0, 3000)])
def test_the_p_value_is_a_probability_also_for_many_episodes(only_a, only_b):
    assert 0 <= binomial_p(only_a, only_b) <= 1
    assert binomial_p(5, 5) == 1


@given(pairs)
def test_exchanging_the_policies_exchanges_signs_and_nothing_else(drawn):
    other = Pairs(drawn.both, drawn.only_b, drawn.only_a, drawn.neither)
    low, high = drawn.interval
    assert other.interval == pytest.approx((-high, -low))
    assert other.p_value == drawn.p_value
    assert other.difference == -drawn.difference
    assert other.rates == drawn.rates[::-1]


@given(pairs)
def test_the_interval_is_one_of_differences_of_rates(drawn):
    low, high = drawn.interval
    assert -1 <= low < high <= 1
    if drawn.num_episodes > 20:
        assert low <= drawn.difference <= high


@pytest.mark.parametrize(("rate_a", "rate_b"), [(0.1, 0.1), (0.05, 0.2), (0.3, 0.1)])
def test_the_interval_covers_the_true_difference_nineteen_times_in_twenty(rate_a, rate_b):
    """By enumeration of all counts of 40 episodes in which one or the other succeeds alone."""
    total, covered = 40, 0.0
    for only_a, only_b in product(range(total + 1), repeat=2):
        rest = total - only_a - only_b
        if rest < 0:
            continue
        low, high = Pairs(rest, only_a, only_b, 0).interval
        if low <= rate_b - rate_a <= high:
            ways = math.comb(total, only_a) * math.comb(total - only_a, only_b)
            covered += ways * rate_a**only_a * rate_b**only_b * (1 - rate_a - rate_b) ** rest
    assert 0.93 < covered < 0.99


def test_as_many_episodes_as_said_show_the_difference_four_times_in_five():
    seen = Pairs(both=400, only_a=98, only_b=198, neither=300)
    needed = seen.episodes_to_show(0.1)
    random = np.random.default_rng(0)
    drawn = random.multinomial(needed, [0.1, 0.2, 0.7], size=2000)
    shown = np.mean([binomial_p(int(a), int(b)) < 0.05 for a, b, _ in drawn])
    # The exact test is a little more careful than the formula.
    assert 0.72 < shown < 0.85


def test_more_disagreement_and_a_smaller_difference_need_more_episodes():
    few, many = Pairs(80, 5, 5, 10), Pairs(50, 20, 20, 10)
    assert few.episodes_to_show(0.05) < many.episodes_to_show(0.05)
    assert many.episodes_to_show(0.05) < many.episodes_to_show(0.02)


def test_the_bootstrap_agrees_with_the_normal_interval_of_many_values():
    values = np.random.default_rng(1).normal(0.3, 1.0, size=400)
    low, high = bootstrap_interval(values)
    margin = 1.96 * values.std() / 20
    assert (low, high) == pytest.approx((values.mean() - margin, values.mean() + margin), abs=0.01)
    assert bootstrap_interval(values) == (low, high)


def test_a_comparison_pairs_episodes_by_seed():
    a, b = episodes([True, True, False, False]), episodes([True, False, True, False])
    found = compare(a, b)
    assert found.pairs == Pairs(both=1, only_a=1, only_b=1, neither=1)
    rows = found.document()["disagreements"]
    assert [(row["seed"], row["success_a"], row["success_b"]) for row in rows] == [
        (1001, True, False),
        (1002, False, True),
    ]


def test_a_better_policy_is_named_with_both_rates():
    assert success_verdict(Pairs(110, 12, 26, 52)) == (
        "B succeeds more often: 68 % against 61 %, p = 0.034."
    )
    assert success_verdict(Pairs(110, 26, 12, 52)).startswith("A succeeds more often: 68 %")


def test_without_a_difference_the_episodes_that_would_be_needed_are_named():
    assert success_verdict(Pairs(20, 5, 6, 19)) == (
        "No difference in success could be shown: A 50 %, B 52 %, p = 1; about 723 episodes would "
        "be needed to show 5 points."
    )


def test_when_there_were_enough_episodes_that_is_said():
    verdict = success_verdict(Pairs(900, 30, 31, 39))
    assert verdict.endswith("1,000 episodes are enough to show 5 points.")


def test_a_difference_in_reward_is_named_beside_equal_successes():
    equal = [False] * 30
    rewards = np.random.default_rng(0).uniform(0.2, 0.4, size=30)
    found = compare(episodes(equal, rewards.tolist()), episodes(equal, (rewards + 0.1).tolist()))
    assert "B's mean maximum reward is higher than A's by 0.100 [0.100, 0.100]" in found.verdict
    back = Comparison(found.pairs, (0.4, 0.3), (-0.15, -0.05), [])
    assert "A's mean maximum reward is higher than B's by 0.100 [0.050, 0.150]" in back.verdict
    assert "reward" not in compare(episodes(equal), episodes(equal)).verdict
