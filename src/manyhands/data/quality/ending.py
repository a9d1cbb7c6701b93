"""Truncated episodes: no label at the end, far too short, or cut off in motion."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from manyhands.data.quality.episode_quality import Fault, QualityFinding
from manyhands.data.quality.robust import MIN_EPISODES, logarithms, spread

LABEL_SHARE = 0.9  # A label that so many episodes end with is part of a complete one
MIN_EXCESS = 3.5  # Robust standard deviations, the usual bound for outliers
MIN_LENGTH_DEVIATION = 0.1  # Of logarithms: lengths that differ by a tenth are alike
MAX_LENGTH_FACTOR = 0.5  # Of the median; above, a quick demonstration is as likely
LONG_FACTOR = 2.0  # Of the median: a demonstration that did not go as planned
MIN_SPEED_DEVIATION = 0.5  # Of logarithms
REST = 0.02  # In usual speeds; slower endings are all at rest
MIN_ENDING_SPEED = 0.5  # In usual speeds; slower, the arm is about to stop


def label_findings(labels: Mapping[str, np.ndarray]) -> Iterator[tuple[int, QualityFinding]]:
    """Episodes that end without a label that nearly all others end with."""
    reported: set[int] = set()
    for key, is_set in labels.items():
        share = float(is_set.mean())
        if len(is_set) < MIN_EPISODES or share < LABEL_SHARE:
            continue
        for place in np.flatnonzero(~is_set).tolist():
            if place not in reported:
                reported.add(place)
                message = f"ends without {key}, which {_percent(share)} of episodes end with"
                yield place, QualityFinding(Fault.TRUNCATED, message, 0.0)


def length_findings(
    lengths: np.ndarray, tasks: Sequence[str]
) -> Iterator[tuple[int, QualityFinding]]:
    """Episodes far shorter or longer than others of their task."""
    for places in _by_task(tasks):
        logs = logarithms(lengths[places].astype(np.float64))
        usual = spread(logs, MIN_LENGTH_DEVIATION)
        excess, factors = usual.excess(logs), np.exp(logs - usual.center)
        for place, own, factor in zip(places.tolist(), excess, factors, strict=True):
            seen = f"{lengths[place]} frames, {factor:.2g} times the median length"
            if own <= -MIN_EXCESS and factor <= MAX_LENGTH_FACTOR:
                message = f"far shorter than others: {seen}"
                yield place, QualityFinding(Fault.TRUNCATED, message, float(factor))
            if own >= MIN_EXCESS and factor >= LONG_FACTOR:
                message = f"far longer than others: {seen}"
                yield place, QualityFinding(Fault.OUTLIER, message, float(factor), False)


def motion_findings(
    ending_speeds: np.ndarray, lengths: np.ndarray, window: int
) -> Iterator[tuple[int, QualityFinding]]:
    """Episodes that end in motion where others end at rest."""
    logs = logarithms(np.maximum(ending_speeds, REST))
    usual = spread(logs, MIN_SPEED_DEVIATION)
    is_cut = (usual.excess(logs) >= MIN_EXCESS) & (ending_speeds >= MIN_ENDING_SPEED)
    for place in np.flatnonzero(is_cut).tolist():
        speed, end = float(ending_speeds[place]), int(lengths[place])
        message = (
            f"ends in motion: {speed:.2g} times the usual speed, where others end at "
            f"{np.exp(usual.center):.2g} times"
        )
        frames = (end - window, end)
        yield place, QualityFinding(Fault.TRUNCATED, message, speed, frames=frames)


def _by_task(tasks: Sequence[str]) -> list[np.ndarray]:
    """Places of the episodes of each task; tasks too rare to compare are taken together."""
    members: dict[str, list[int]] = {}
    for place, task in enumerate(tasks):
        members.setdefault(task, []).append(place)
    rare = [each for own in members.values() if len(own) < MIN_EPISODES for each in own]
    common = [own for own in members.values() if len(own) >= MIN_EPISODES]
    return [np.array(own) for own in [*common, sorted(rare)] if own]


def _percent(share: float) -> str:
    # Rounding must not report all episodes where one differs.
    return f"{np.floor(share * 1000) / 10:g} %"
