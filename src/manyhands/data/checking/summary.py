"""Summary of a feature's values over many files: count, extremes and sum."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Summary:
    """Numbers of one feature; the arrays have the shape of one value."""

    num_frames: int
    low: np.ndarray
    high: np.ndarray
    total: np.ndarray

    @property
    def mean(self) -> np.ndarray:
        """The average value."""
        mean: np.ndarray = self.total / self.num_frames
        return mean

    def folded(self, shape: tuple[int, ...]) -> "Summary | None":
        """The same in the shape of a statistic, with fewer leading axes; None if it cannot be."""
        arrays = (self.low, self.high, self.total)
        if math.prod(shape) == self.low.size:
            return Summary(self.num_frames, *(each.reshape(shape) for each in arrays))
        if not self.low.ndim or shape != self.low.shape[-1:]:
            return None
        low, high, total = (each.reshape(-1, *shape) for each in arrays)
        return Summary(self.num_frames, low.min(axis=0), high.max(axis=0), total.mean(axis=0))

    def joined(self, other: "Summary") -> "Summary":
        """The summary of both."""
        return Summary(
            self.num_frames + other.num_frames,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
            self.total + other.total,
        )


Summaries = dict[str, Summary]
"""By feature."""


def summarize(values: np.ndarray) -> Summary:
    """The summary of values (frames, ...), of which there must be some."""
    exact = values.astype(np.float64)
    return Summary(len(exact), exact.min(axis=0), exact.max(axis=0), exact.sum(axis=0))


def joined(parts: Mapping[str, Summary], others: Mapping[str, Summary]) -> Summaries:
    """Merge the summaries of two sets of files."""
    both = parts.keys() & others.keys()
    return {**parts, **others} | {key: parts[key].joined(others[key]) for key in both}
