"""Robust statistics across episodes: a few bad episodes do not move what they are compared with."""

from typing import NamedTuple

import numpy as np

NORMAL_MAD = 1.4826  # Median absolute deviations in a standard deviation of a normal distribution
MIN_EPISODES = 8  # With fewer, a median absolute deviation says nothing about what is usual


class Spread(NamedTuple):
    """Median and robust standard deviation of values across episodes."""

    center: np.ndarray
    deviation: np.ndarray

    def excess(self, values: np.ndarray) -> np.ndarray:
        """Distances from the median in robust standard deviations; NaN if nothing is known."""
        with np.errstate(invalid="ignore", divide="ignore"):
            distance: np.ndarray = (values - self.center) / self.deviation
        return distance


def spread(values: np.ndarray, floor: float) -> Spread:
    """The spread along the first axis, at least `floor`; NaN, for not known, does not count."""
    known = np.isfinite(values).sum(axis=0)
    filled = np.where(np.isfinite(values), values, np.nan)
    is_enough = known >= MIN_EPISODES
    safe = np.where(is_enough, filled, 0.0)
    center = np.nanmedian(safe, axis=0)
    deviation = NORMAL_MAD * np.nanmedian(np.abs(safe - center), axis=0)
    return Spread(
        np.where(is_enough, center, np.nan),
        np.where(is_enough, np.maximum(deviation, floor), np.nan),
    )


def logarithms(values: np.ndarray) -> np.ndarray:
    """Natural logarithms; NaN for values that are not positive."""
    is_positive = np.greater(values, 0, where=np.isfinite(values), out=np.zeros(values.shape, bool))
    logs: np.ndarray = np.log(values, where=is_positive, out=np.full(values.shape, np.nan))
    return logs


def median_of_positive(values: np.ndarray) -> np.ndarray:
    """Medians along the first axis of what is above zero; zero if nothing is."""
    is_positive = np.greater(values, 0)
    safe = np.where(is_positive.any(axis=0), np.where(is_positive, values, np.nan), 0.0)
    medians: np.ndarray = np.nanmedian(safe, axis=0)
    return medians


def longest_run(marks: np.ndarray) -> tuple[int, int]:
    """First place and end of the longest run of marks; (0, 0) without any."""
    edges = np.flatnonzero(np.diff(marks.astype(np.int8), prepend=0, append=0)).reshape(-1, 2)
    if not len(edges):
        return 0, 0
    first, end = edges[np.argmax(edges[:, 1] - edges[:, 0])]
    return int(first), int(end)
