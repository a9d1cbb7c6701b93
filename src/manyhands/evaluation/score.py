"""What episodes amount to: a success rate with its interval, and rewards."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from manyhands.evaluation.rollout import EpisodeResult

Z_95 = 1.959964
"""Standard deviations on each side of the mean that cover 95 % of a normal distribution."""


@dataclass(frozen=True)
class Score:
    """Success rate with its 95 % interval; means over the episodes that did not crash."""

    success: float
    interval: tuple[float, float]
    num_episodes: int
    mean_sum_reward: float
    mean_max_reward: float
    mean_length: float


def score(results: Sequence[EpisodeResult]) -> Score:
    """Sum up at least one episode."""
    num_episodes = len(results)
    num_successes = sum(result.success for result in results)
    # A crash is a failure, but says nothing about rewards: zero may be more than others reach.
    ran = [result for result in results if result.error is None] or results
    return Score(
        success=num_successes / num_episodes,
        interval=wilson_interval(num_successes, num_episodes),
        num_episodes=num_episodes,
        mean_sum_reward=fmean(result.sum_reward for result in ran),
        mean_max_reward=fmean(result.max_reward for result in ran),
        mean_length=fmean(result.length for result in ran),
    )


def wilson_interval(num_successes: int, num_trials: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a success rate; valid also at 0 % and 100 %."""
    rate, spread = num_successes / num_trials, Z_95**2 / num_trials
    center = (rate + spread / 2) / (1 + spread)
    margin = (spread * (rate * (1 - rate) + spread / 4)) ** 0.5 / (1 + spread)
    return max(0.0, center - margin), min(1.0, center + margin)
