"""From frame offsets to the rows of a window and the mask of what lies outside the episode."""

from typing import NamedTuple

import numpy as np


class Window(NamedTuple):
    """The rows each sample looks at, of shape (samples, offsets)."""

    rows: np.ndarray
    is_pad: np.ndarray
    """Where the episode had no such frame and its first or last one stands in."""


def window_rows(rows: np.ndarray, bounds: np.ndarray, offsets: np.ndarray) -> Window:
    """Rows at `offsets` from each row, kept inside the episode whose `bounds` stand beside it."""
    wanted = rows[:, None] + offsets
    nearest = np.clip(wanted, bounds[:, :1], bounds[:, 1:] - 1)
    return Window(nearest, wanted != nearest)
