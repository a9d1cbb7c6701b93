"""One metric over a run, prepared for drawing."""

from dataclasses import dataclass

import numpy as np

LARGEST_DRAWN = 1e30
"""Larger values are not drawn: they would hide all others on the axis."""


@dataclass(frozen=True)
class Series:
    """Values at ascending steps."""

    steps: np.ndarray
    values: np.ndarray

    def __len__(self) -> int:
        return len(self.steps)

    def drawable(self) -> "Series":
        """The points an axis can hold."""
        return self._at(np.abs(self.values) < LARGEST_DRAWN)

    def not_drawable(self) -> "Series":
        """The points that are not finite, or might as well not be."""
        return self._at(~(np.abs(self.values) < LARGEST_DRAWN))

    def _at(self, chosen: np.ndarray) -> "Series":
        return Series(self.steps[chosen], self.values[chosen])


def smoothed(series: Series, max_points: int = 300) -> Series:
    """Means over a thirtieth of the run, centered; only the end, having no future, looks back."""
    reach = len(series) // 60
    centers = np.linspace(0, len(series) - 1, min(len(series), max_points)).astype(int)
    # A window that opens with the distance from the start keeps a steep first descent steep.
    means = [series.values[max(0, c - reach) : c + min(c, reach) + 1].mean() for c in centers]
    return Series(series.steps[centers], np.array(means))


def thinned(series: Series, max_points: int = 600) -> Series:
    """At most `max_points` points: the ends, and the lowest and highest of each stretch between."""
    if len(series) <= max_points:
        return series
    stretches = np.array_split(np.arange(len(series)), max_points // 2 - 1)
    lows = [part[np.argmin(series.values[part])] for part in stretches]
    highs = [part[np.argmax(series.values[part])] for part in stretches]
    kept = np.unique([0, *lows, *highs, len(series) - 1])
    return Series(series.steps[kept], series.values[kept])
