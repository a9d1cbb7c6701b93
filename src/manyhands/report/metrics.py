"""The metrics of a run, read from its files and prepared for drawing."""

import json
from array import array
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np

from manyhands.observe.jsonl import integer

LARGEST_DRAWN = 1e30  # Larger values are not drawn: they would hide all others on the axis


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

    @property
    def content(self) -> bytes:
        """A short text that two series share only if they have the same points."""
        return blake2b(self.steps.tobytes() + self.values.tobytes(), digest_size=16).digest()

    def _at(self, chosen: np.ndarray) -> "Series":
        return self if chosen.all() else Series(self.steps[chosen], self.values[chosen])


def smoothed(series: Series, reach: int) -> Series:
    """Means over `reach` points to both sides; only the end, having no future, looks back."""
    # A window that opens with the distance from the start keeps a steep first descent steep.
    places = range(len(series))
    windows = [slice(max(0, place - reach), place + min(place, reach) + 1) for place in places]
    means = [series.values[window].mean() for window in windows]
    return Series(series.steps, np.array(means))


def averaged(series: Series, max_points: int) -> Series:
    """The series itself, or the means of that many equal stretches, each at its middle step."""
    if len(series) <= max_points:
        return series
    stretches = np.array_split(np.arange(len(series)), max_points)
    middles = [part[len(part) // 2] for part in stretches]
    means = [series.values[part].mean() for part in stretches]
    return Series(series.steps[middles], np.array(means))


def downsampled(series: Series, max_points: int) -> Series:
    """At most `max_points` points: the ends, the extremes of each stretch between, and its gap."""
    if len(series) <= max_points:
        return series
    kept = [0, len(series) - 1]
    for part in np.array_split(np.arange(len(series)), max_points // 3 - 1):
        is_gap = np.isnan(series.values[part])
        kept += part[is_gap][:1].tolist()
        if not is_gap.all():
            values = series.values[part]
            kept += [part[np.nanargmin(values)], part[np.nanargmax(values)]]
    places = np.unique(kept)
    return Series(series.steps[places], series.values[places])


def every_nth(series: Series, max_points: int) -> Series:
    """Points spread evenly over the series, both ends included."""
    if len(series) <= max_points:
        return series
    kept = np.linspace(0, len(series) - 1, max_points).round().astype(int)
    return Series(series.steps[kept], series.values[kept])


# A run may still be writing them, may have died in the middle of a line, or may come from another
# version: what cannot be parsed is skipped, never an error.
MAX_STEP = 2**53  # Up to here a float counts without skipping; no run gets there
NUMBER = int | float

Row = dict[str, Any]


def read_rows(path: Path) -> Iterator[Row]:
    """The objects of a JSON-lines file, one after the other; other lines are skipped."""
    if not path.is_file():
        return
    with suppress(OSError), path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            row = parsed(line)
            if isinstance(row, dict):
                yield row


def columns(rows: Iterable[Mapping[str, Any]]) -> dict[str, Series]:
    """The numbers of rows by name; a step logged again after a resume counts once."""
    # Arrays of numbers: as dictionaries, the rows of a long run take gigabytes.
    points: dict[str, tuple[array[float], array[float]]] = {}
    for row in rows:
        step = row.get("step")
        if not is_number(step) or not 0 <= step <= MAX_STEP:
            continue
        for name, value in row.items():
            if name != "step" and is_number(value):
                own = points.get(name) or points.setdefault(name, (array("d"), array("d")))
                own[0].append(step)
                own[1].append(value)
    return {name: _series(*map(np.frombuffer, pair)) for name, pair in points.items()}


def _series(steps: np.ndarray, values: np.ndarray) -> Series:
    """Points in the order of their steps, of each step the last one."""
    if (np.diff(steps) > 0).all():
        return Series(steps, values)
    order = np.argsort(steps, kind="stable")
    kept = order[np.append(np.diff(steps[order]) > 0, True)]
    return Series(steps[kept], values[kept])


def read_metrics(run_dir: Path) -> dict[str, Series]:
    """The numbers in `metrics.jsonl` by name."""
    return columns(read_rows(run_dir / "metrics.jsonl"))


def read_object(path: Path) -> dict[str, Any]:
    """The content of a JSON file with an object, empty if it is unreadable."""
    content = parsed(read_text(path))
    return content if isinstance(content, dict) else {}


def read_run(run_dir: Path) -> dict[str, Any]:
    """The content of `run.json`, empty if it is unreadable."""
    return read_object(run_dir / "run.json")


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value of a JSON file is a number."""
    return isinstance(value, NUMBER) and not isinstance(value, bool)


def read_text(path: Path) -> str:
    """The text of a file, empty if there is none that can be read."""
    if not path.is_file():
        return ""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def parsed(text: str) -> Any:
    """The value of a JSON text; None if it is truncated or none."""
    try:
        return json.loads(text, parse_int=integer)
    except (ValueError, RecursionError):
        return None
