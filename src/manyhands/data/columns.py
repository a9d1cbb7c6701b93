"""Columns of a dataset: each returns its values for any rows, whatever they are stored as."""

from typing import Protocol

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor


class Column(Protocol):
    """A feature of the dataset."""

    drops_single_axis: bool
    """Whether LeRobot leaves the time axis out when a window has one entry."""

    def read(self, rows: np.ndarray) -> Tensor | list[object]:
        """The values at an array of rows, whose axes come first."""


class NumberColumn:
    """Numbers and truth values, held in memory."""

    drops_single_axis = False

    def __init__(self, values: np.ndarray) -> None:
        self._values = values

    def read(self, rows: np.ndarray) -> Tensor:
        """Values stacked along the axes of `rows`."""
        return torch.from_numpy(self._values[rows])


class ObjectColumn:
    """Texts and lists of any content, held in memory; they have no windows."""

    drops_single_axis = False

    def __init__(self, values: pa.ChunkedArray) -> None:
        self._values = values

    def read(self, rows: np.ndarray) -> list[object]:
        """One Python object per row."""
        objects: list[object] = self._values.take(pa.array(rows.reshape(-1))).to_pylist()
        return objects


class TextColumn:
    """Texts that many rows share, held once."""

    drops_single_axis = False

    def __init__(self, texts: list[str], of_row: np.ndarray) -> None:
        self._texts = texts
        self._of_row = of_row

    def read(self, rows: np.ndarray) -> list[object]:
        """One text per row."""
        return [self._texts[number] for number in self._of_row[rows.reshape(-1)]]
