"""Batch sources: windows of values with known shapes, written into preallocated arrays."""

from typing import NamedTuple, Protocol

import numpy as np
import torch

from manyhands.types import Batch


class ArraySpec(NamedTuple):
    """Shape and type of one key's values in a batch."""

    shape: tuple[int, ...]
    dtype: np.dtype


class BatchSource(Protocol):
    """Samples by row, delivered as complete batches; cheap to pickle for worker processes."""

    def layout(self, num_samples: int) -> dict[str, ArraySpec]:
        """The arrays of a batch by key; the same for every batch of that many samples."""

    def fill(self, rows: np.ndarray, arrays: dict[str, np.ndarray]) -> dict[str, list[object]]:
        """Write the samples at `rows` into arrays of that layout; return strings and lists."""


def read_batch(source: BatchSource, rows: np.ndarray) -> Batch:
    """A batch in memory of its own."""
    specs = source.layout(len(rows))
    arrays = {key: np.empty(spec.shape, spec.dtype) for key, spec in specs.items()}
    objects = source.fill(rows, arrays)
    return {key: torch.from_numpy(array) for key, array in arrays.items()} | objects


class Window(NamedTuple):
    """The rows of each sample's window, of shape (samples, offsets)."""

    rows: np.ndarray
    is_pad: np.ndarray  # True outside the episode, where its first or last frame is repeated


def window_rows(rows: np.ndarray, bounds: np.ndarray, offsets: np.ndarray) -> Window:
    """Rows at `offsets` from each row, clamped to the episode's `bounds`."""
    wanted = rows[:, None] + offsets
    nearest = np.clip(wanted, bounds[:, :1], bounds[:, 1:] - 1)
    return Window(nearest, wanted != nearest)
