"""Compute the rows of a window and its padding mask from frame offsets."""

from typing import NamedTuple

import numpy as np


class Window(NamedTuple):
    """The rows of each sample's window, of shape (samples, offsets)."""

    rows: np.ndarray
    is_pad: np.ndarray
    """True where the offset is outside the episode and its first or last frame is repeated."""


def window_rows(rows: np.ndarray, bounds: np.ndarray, offsets: np.ndarray) -> Window:
    """Rows at `offsets` from each row, clamped to the episode's `bounds`."""
    wanted = rows[:, None] + offsets
    nearest = np.clip(wanted, bounds[:, :1], bounds[:, 1:] - 1)
    return Window(nearest, wanted != nearest)
