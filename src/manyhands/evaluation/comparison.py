"""Two policies on the same seeds: a paired test, the size of the difference, a verdict in words.

Successes: McNemar's exact test, and the interval of Agresti and Min (2005) for the difference of
rates. Rewards: a paired bootstrap over seeds.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from manyhands.evaluation.rollout import EpisodeResult
from manyhands.evaluation.score import Z_95

SIGNIFICANT = 0.05
Z_POWER = 0.841621
"""Standard deviations below which 80 % of a normal distribution lie."""
SHOWN_DIFFERENCE = 0.05
NUM_RESAMPLES = 10_000

Interval = tuple[float, float]


@dataclass(frozen=True)
class Pairs:
    """Successes of two policies A and B on the same seeds, counted."""

    both: int
    only_a: int
    only_b: int
    neither: int

    @property
    def num_episodes(self) -> int:
        """Seeds."""
        return self.both + self.only_a + self.only_b + self.neither

    @property
    def rates(self) -> tuple[float, float]:
        """The success rates of A and B."""
        total = self.num_episodes
        return (self.both + self.only_a) / total, (self.both + self.only_b) / total

    @property
    def p_value(self) -> float:
        """McNemar's exact test: how likely so uneven a split is if A and B succeed alike."""
        return binomial_p(self.only_a, self.only_b)

    @property
    def difference(self) -> float:
        """The success rate of B less that of A."""
        return (self.only_b - self.only_a) / self.num_episodes

    @property
    def interval(self) -> Interval:
        """The 95 % interval of the difference."""
        # Half an episode more in each of the four cells keeps the coverage in small samples.
        total = self.num_episodes + 2
        gap, num_unlike = self.only_b - self.only_a, self.only_a + self.only_b + 1
        margin = Z_95 * math.sqrt(num_unlike - gap**2 / total) / total
        return max(-1.0, gap / total - margin), min(1.0, gap / total + margin)

    def episodes_to_show(self, difference: float) -> int:
        """Episodes that show it four times in five, if as many seeds disagree as here."""
        unlike = (self.only_a + self.only_b + 1) / (self.num_episodes + 2)
        unlike = max(unlike, difference)
        root = Z_95 * math.sqrt(unlike) + Z_POWER * math.sqrt(unlike - difference**2)
        return math.ceil((root / difference) ** 2)


@dataclass(frozen=True)
class Comparison:
    """How B does beside A."""

    pairs: Pairs
    mean_rewards: tuple[float, float]
    """Mean maximum rewards of A and B."""
    reward_interval: Interval
    """The 95 % interval of their difference."""
    disagreements: list[tuple[EpisodeResult, EpisodeResult]]
    """Episodes of A and B with the same seed, of which one succeeds."""

    @property
    def reward_difference(self) -> float:
        """Mean maximum reward of B less that of A."""
        return self.mean_rewards[1] - self.mean_rewards[0]

    @property
    def verdict(self) -> str:
        """The outcome in words."""
        return " ".join(filter(None, (success_verdict(self.pairs), self._reward_verdict())))

    def document(self) -> dict[str, Any]:
        """The comparison for programs."""
        pairs = self.pairs
        rate_a, rate_b = pairs.rates
        return {
            "verdict": self.verdict,
            "num_episodes": pairs.num_episodes,
            "success_a": rate_a,
            "success_b": rate_b,
            "difference": pairs.difference,
            "interval": list(pairs.interval),
            "p_value": pairs.p_value,
            **vars(pairs),
            "mean_max_reward_a": self.mean_rewards[0],
            "mean_max_reward_b": self.mean_rewards[1],
            "max_reward_difference": self.reward_difference,
            "max_reward_interval": list(self.reward_interval),
            "episodes_to_show_5_points": pairs.episodes_to_show(SHOWN_DIFFERENCE),
            "disagreements": [
                {
                    "seed": one.seed,
                    "success_a": one.success,
                    "success_b": other.success,
                    "max_reward_a": one.max_reward,
                    "max_reward_b": other.max_reward,
                }
                for one, other in self.disagreements
            ],
        }

    def _reward_verdict(self) -> str:
        low, high = self.reward_interval
        if low <= 0 <= high:
            return ""
        better, worse = ("B", "A") if low > 0 else ("A", "B")
        low, high = sorted((abs(low), abs(high)))
        return (
            f"{better}'s mean maximum reward is higher than {worse}'s by "
            f"{abs(self.reward_difference):.3f} [{low:.3f}, {high:.3f}]."
        )


def compare(a: Sequence[EpisodeResult], b: Sequence[EpisodeResult]) -> Comparison:
    """Compare episodes of two policies, in the same order of seeds."""
    both = list(zip(a, b, strict=True))
    outcomes = [(one.success, other.success) for one, other in both]
    counts = (outcomes.count(each) for each in ((True, True), (True, False), (False, True)))
    both_succeed, only_a, only_b = counts
    # A crash is a failure, but says nothing about rewards.
    ran = [(one, other) for one, other in both if not (one.error or other.error)] or both
    rewards = np.array([[one.max_reward, other.max_reward] for one, other in ran])
    mean_a, mean_b = rewards.mean(axis=0).tolist()
    return Comparison(
        Pairs(both_succeed, only_a, only_b, outcomes.count((False, False))),
        (mean_a, mean_b),
        bootstrap_interval(rewards[:, 1] - rewards[:, 0]),
        [(one, other) for one, other in both if one.success != other.success],
    )


def success_verdict(pairs: Pairs) -> str:
    """Who succeeds more often, or what could not be shown."""
    rate_a, rate_b = pairs.rates
    p = f"p = {pairs.p_value:.2g}"
    if pairs.p_value < SIGNIFICANT:
        low, high = sorted((rate_a, rate_b))
        better = "B" if rate_b > rate_a else "A"
        return f"{better} succeeds more often: {percent(high)} against {percent(low)}, {p}."
    seen = f"A {percent(rate_a)}, B {percent(rate_b)}, {p}"
    needed, points = pairs.episodes_to_show(SHOWN_DIFFERENCE), round(100 * SHOWN_DIFFERENCE)
    if needed <= pairs.num_episodes:
        more = f"{pairs.num_episodes:,} episodes are enough to show {points} points"
    else:
        more = f"about {needed:,} episodes would be needed to show {points} points"
    return f"No difference in success could be shown: {seen}; {more}."


def percent(rate: float) -> str:
    """A rate with a digit where it has one: 68 %, 61.5 %."""
    return f"{100 * rate:.1f}".removesuffix(".0") + " %"


def binomial_p(first: int, second: int) -> float:
    """Two-sided p-value of a split into two, if a fair coin decides each one."""
    total = first + second
    tail = sum(math.comb(total, count) for count in range(min(first, second) + 1))
    return min(1.0, tail / 2 ** (total - 1)) if total else 1.0


def bootstrap_interval(differences: np.ndarray) -> Interval:
    """The 95 % interval of a mean, from resampled values; always the same resamples."""
    random = np.random.default_rng(0)
    size = len(differences)
    means = [differences[random.integers(size, size=size)].mean() for _ in range(NUM_RESAMPLES)]
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)
