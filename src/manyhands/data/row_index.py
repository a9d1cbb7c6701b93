"""Rows of a dataset as Python names them: a number, a slice, or several numbers."""

from collections.abc import Sequence

import numpy as np

RowIndex = int | slice | Sequence[int] | np.ndarray


def find_rows(index: RowIndex, num_rows: int) -> np.ndarray:
    """The rows of an index; negative numbers count from the end."""
    chosen = range(*index.indices(num_rows)) if isinstance(index, slice) else index
    numbers = np.asarray(chosen).reshape(-1)
    if numbers.size == 0:
        raise IndexError(f"{index!r} selects none of the {num_rows} rows")
    if numbers.dtype.kind not in "iu":
        raise TypeError(
            "a dataset is indexed by rows, as in dataset[0], dataset[0:8] or dataset[[0, 5]], not "
            f"by {index!r}"
        )
    rows = np.where(numbers < 0, numbers + num_rows, numbers)
    outside = numbers[(rows < 0) | (rows >= num_rows)]
    if outside.size:
        raise IndexError(f"row {outside[0]}: the dataset has rows 0 to {num_rows - 1}")
    return rows
