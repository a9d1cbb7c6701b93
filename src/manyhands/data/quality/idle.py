"""Idle episodes: long stretches in which the robot does not move."""

from collections.abc import Iterator, Sequence

import numpy as np

from manyhands.data.quality.episode_quality import Fault, QualityFinding
from manyhands.data.quality.motion import Idleness
from manyhands.data.quality.robust import spread

MIN_IDLE_S = 3.0  # Shorter pauses belong to most tasks
MIN_EXCESS = 6.0  # Robust standard deviations; pauses have long tails
MIN_DEVIATION_S = 0.5  # Pauses that differ by half a second are alike
MAX_IDLE_SHARE = 0.8  # With less motion than this leaves, an episode teaches to wait


def idle_findings(idle: Sequence[Idleness], fps: float) -> Iterator[tuple[int, QualityFinding]]:
    """Episodes with unusually long pauses; those that hardly move are worth excluding."""
    longest_s = np.array([(each.longest[1] - each.longest[0]) / fps for each in idle])
    # Without enough episodes there is nothing unusual, and only the share counts.
    excess = spread(longest_s, MIN_DEVIATION_S).excess(longest_s)
    usual_share = float(np.median([each.share for each in idle]))
    for place, each in enumerate(idle):
        is_noticeable = longest_s[place] >= MIN_IDLE_S
        is_long = is_noticeable and excess[place] >= MIN_EXCESS
        hardly_moves = bool(is_noticeable and each.share > MAX_IDLE_SHARE >= usual_share)
        if is_long or hardly_moves:
            message = (
                f"no motion for {longest_s[place]:.1f} s, frames {each.longest[0]} to "
                f"{each.longest[1] - 1}; {each.share:.0%} of the episode is idle"
            )
            value = float(longest_s[place])
            yield (
                place,
                QualityFinding(Fault.IDLE, message, value, hardly_moves, frames=each.longest),
            )
