"""Rows of arrays on disk, read a few chunks at a time."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

_BLOCK_BYTES = 8 * 1024**2


def chunked_rows(array: Any, start: int, stop: int) -> Iterator[np.ndarray]:
    """Yield rows of an array of HDF5 or zarr; no chunk is decompressed twice."""
    row_bytes = max(1, math.prod(array.shape[1:]) * array.dtype.itemsize)
    chunk = array.chunks[0] if array.chunks else 1
    block = chunk * max(1, _BLOCK_BYTES // (row_bytes * chunk))
    while start < stop:
        end = min(stop, (start // block + 1) * block)
        yield from array[start:end]
        start = end


def joined_frames(rows: Mapping[str, Iterator[Any]]) -> Iterator[dict[str, Any]]:
    """Yield frames from columns of equal length."""
    for values in zip(*rows.values(), strict=True):
        yield dict(zip(rows, values, strict=True))
