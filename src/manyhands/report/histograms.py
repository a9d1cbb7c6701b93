"""Distributions of values as bars."""

import numpy as np

from manyhands.report.charts import Chart, Line, Scale
from manyhands.report.metrics import LARGEST_DRAWN, Series

FEWEST_BARS, MAX_BARS = 5, 30
NUM_AROUND = 11  # Ranges around values that are all the same
RESOLUTION = 1e-12  # Values that differ less, relatively, are the same.
SMALLEST_DRAWN = 1e-300


def histogram(title: str, values: np.ndarray, along: str, counted: str) -> Chart | None:
    """How many values lie in each of equal ranges; None without any that can be drawn."""
    known = np.asarray(values, np.float64).reshape(-1)
    known = known[np.abs(known) < LARGEST_DRAWN]
    if not len(known):
        return None
    counts, edges = np.histogram(known, bins=edges_of_bars(known))
    width = float(edges[1] - edges[0])
    series = Series((edges[:-1] + edges[1:]) / 2, counts.astype(np.float64))
    scale = Scale(from_zero=True, along=along, bar_width=width)
    return Chart(title=title, lines=[Line(name=counted, series=series)], scale=scale)


def edges_of_bars(values: np.ndarray) -> np.ndarray:
    """Equal ranges: one around each of few integers, else as many as the values are worth."""
    low, high = float(values.min()), float(values.max())
    if high - low <= RESOLUTION * max(abs(low), abs(high), SMALLEST_DRAWN):
        # One bar in the middle of an axis that shows where it is.
        return low + (np.arange(NUM_AROUND + 1) - NUM_AROUND / 2) * 0.1 * max(abs(low), 1.0)
    if high - low < MAX_BARS and (values == np.round(values)).all():
        return np.arange(low, high + 2) - 0.5
    num_bars = int(np.clip(np.sqrt(len(values)) * 2, FEWEST_BARS, MAX_BARS))
    return np.histogram_bin_edges(values, bins=num_bars)
