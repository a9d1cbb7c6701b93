"""What was compared with LeRobot, as tests assert it and a table shows it."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Row:
    """One compared quantity."""

    what: str
    ours: str
    theirs: str
    difference: float
    tolerance: float

    @property
    def is_within(self) -> bool:
        """Whether both agree; a difference that is no number never does."""
        return self.difference <= self.tolerance

    def cells(self) -> tuple[str, ...]:
        """The row as the table shows it."""
        difference, tolerance = (
            f"{value:.1e}" if value else "0" for value in (self.difference, self.tolerance)
        )
        verdict = "" if self.is_within else "  DIFFERS"
        return self.what, self.ours, self.theirs, difference, tolerance + verdict


class Comparison:
    """Compares our values with theirs; tests assert `faults` at their end, so that all is seen."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def __call__(
        self,
        what: str,
        ours: Any,
        theirs: Any,
        tolerance: float = 0.0,
        scale: float | None = None,
    ) -> None:
        """Numbers, tensors or both by name; the largest difference is a share of the largest value.

        A `scale` of one leaves the difference as it is. Names, shapes and types must be the same.
        """
        one, other = _tensors(ours), _tensors(theirs)
        assert other and _layout(one) == _layout(other), what
        if scale is None:
            scale = _largest(_largest(value) for value in other.values())
        furthest = _largest(_largest(one[name].double() - other[name].double()) for name in other)
        self.rows.append(Row(what, told(one), told(other), furthest / (scale or 1.0), tolerance))

    def each(
        self, what: str, ours: Sequence[float], theirs: Sequence[float], tolerance: float
    ) -> None:
        """Numbers of successive updates; every difference is a share of its own value."""
        assert len(ours) == len(theirs) > 0
        pairs = zip(ours, theirs, strict=True)
        furthest = _largest((one - other) / (abs(other) or 1.0) for one, other in pairs)
        first_to_last = (f"{values[0]:.7g} … {values[-1]:.7g}" for values in (ours, theirs))
        self.rows.append(Row(what, *first_to_last, furthest, tolerance))

    def moved(self, what: str, ours: Any, theirs: Any, start: Any, tolerance: float) -> None:
        """Weights after training; their distance is a share of the way theirs have come."""
        states = [_tensors(value) for value in (ours, theirs, start)]
        assert _layout(states[0]) == _layout(states[1]) == _layout(states[2]), what
        ways = [distance(states[0], states[2]), distance(states[1], states[2])]
        apart = distance(states[0], states[1]) / (ways[1] or 1.0)
        self.rows.append(Row(what, *(f"moved by {way:.7g}" for way in ways), apart, tolerance))

    def same(self, what: str, ours: Any, theirs: Any) -> None:
        """Things that are no numbers: they are equal or they are not."""
        texts = [_short(value) for value in (ours, theirs)]
        self.rows.append(Row(what, *texts, 0.0 if ours == theirs else float("inf"), 0.0))

    def faults(self) -> list[str]:
        """What does not agree, or that nothing was compared."""
        beyond = [
            f"{row.what}: the difference {row.difference:.2g} exceeds {row.tolerance:.2g}"
            for row in self.rows
            if not row.is_within
        ]
        return beyond if self.rows else ["nothing was compared"]


def table(rows: Sequence[Row]) -> list[str]:
    """Lines of text with one column for each part of a row."""
    cells = [("what", "ours", "theirs", "difference", "tolerance"), *(row.cells() for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in cells
    ]
    return [lines[0], "-" * max(map(len, lines)), *lines[1:]]


def distance(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> float:
    """The Euclidean distance of all values together."""
    squares = [(one[name].double() - other[name].double()).square().sum() for name in other]
    return math.sqrt(sum(map(float, squares)))


def told(tensors: Mapping[str, Tensor]) -> str:
    """A number as it is; of many, how many they are and their mean."""
    num_values = sum(value.numel() for value in tensors.values())
    total = sum(float(value.double().sum()) for value in tensors.values())
    mean = f"{total / max(1, num_values):.7g}"
    return mean if num_values == 1 else f"{num_values} values, mean {mean}"


def _tensors(value: Any) -> dict[str, Tensor]:
    if isinstance(value, float):
        value = torch.tensor(value, dtype=torch.float64)
    named = value if isinstance(value, Mapping) else {"": value}
    return {name: torch.as_tensor(named[name]).detach() for name in sorted(named)}


def _layout(tensors: Mapping[str, Tensor]) -> dict[str, tuple[torch.dtype, torch.Size]]:
    return {name: (value.dtype, value.shape) for name, value in tensors.items()}


def _largest(values: Tensor | Iterable[float]) -> float:
    """The largest size of any value; not a number where one is not."""
    if not isinstance(values, Tensor):
        values = torch.tensor(list(values), dtype=torch.float64)
    return float(values.double().abs().max())


def _short(value: Any) -> str:
    if isinstance(value, (list, tuple, set, dict)):
        return f"{len(value)} entries" if value else "none"
    return str(value)
