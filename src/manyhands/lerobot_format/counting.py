"""Numbers that count things: whole, from zero on, each once."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

_END = 2**53
"""The first whole number that a table written with doubles may have rounded."""


def whole_number(value: object, name: str, least: int = 0) -> int:
    """A value that must be a whole number; a ValueError names it."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value < _END:
        raise ValueError(f"{name} must be an integer of at least {least}, not {value!r:.60}")
    return value


def real_numbers(table: pa.Table, name: str) -> np.ndarray:
    """A column that must hold a number from zero on in every row; a ValueError names it."""
    column = table[name]
    is_number = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    if column.null_count or not is_number:
        raise ValueError(f"column {name} must have a number in every row")
    values: np.ndarray = column.to_numpy()
    is_fine = (values >= 0) & (values < _END)
    if not is_fine.all():
        raise ValueError(
            f"column {name} contains {values[~is_fine][0]}, not a number of at least 0"
        )
    return values


def whole_numbers(table: pa.Table, name: str) -> np.ndarray:
    """A column that must count something; a ValueError names it."""
    values = real_numbers(table, name)
    whole = values.astype(np.int64)
    if (whole != values).any():
        raise ValueError(f"column {name} contains {values[whole != values][0]}, not an integer")
    return whole


def counted_order(numbers: Sequence[int] | np.ndarray, noun: str) -> np.ndarray:
    """The order that sorts numbers which must be 0, 1, 2 and so on, each once."""
    order = np.argsort(numbers, kind="stable")
    ranked = np.asarray(numbers)[order]
    wrong = np.flatnonzero(ranked != np.arange(len(ranked)))
    if wrong.size:
        place = int(wrong[0])
        fault = f"{place - 1} appears twice" if ranked[place] < place else f"{place} is missing"
        raise ValueError(f"{noun} must be numbered 0 to {len(ranked) - 1}, but {fault}")
    return order
