"""The metrics of a run, read from its files and prepared for drawing."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

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

    def _at(self, chosen: np.ndarray) -> "Series":
        return Series(self.steps[chosen], self.values[chosen])


def smoothed(series: Series, max_points: int = 300) -> Series:
    """Means over a thirtieth of the run, centered; only the end, having no future, looks back."""
    reach = len(series) // 60
    centers = np.linspace(0, len(series) - 1, min(len(series), max_points)).astype(int)
    # A window that opens with the distance from the start keeps a steep first descent steep.
    means = [series.values[max(0, c - reach) : c + min(c, reach) + 1].mean() for c in centers]
    return Series(series.steps[centers], np.array(means))


def downsampled(series: Series, max_points: int = 600) -> Series:
    """At most `max_points` points: the ends, and the lowest and highest of each stretch between."""
    if len(series) <= max_points:
        return series
    stretches = np.array_split(np.arange(len(series)), max_points // 2 - 1)
    lows = [part[np.argmin(series.values[part])] for part in stretches]
    highs = [part[np.argmax(series.values[part])] for part in stretches]
    kept = np.unique([0, *lows, *highs, len(series) - 1])
    return Series(series.steps[kept], series.values[kept])


# A run may still be writing them, may have died in the middle of a line, or may come from another
# version: what cannot be parsed is skipped, never an error.
MAX_STEP = 2**53  # Up to here a float counts without skipping; no run gets there


def read_metrics(run_dir: Path) -> dict[str, Series]:
    """The numbers in `metrics.jsonl` by name; a step logged again after a resume counts once."""
    by_step: dict[float, dict[str, float]] = {}
    for line in _text(run_dir / "metrics.jsonl").splitlines():
        row = _numbers(line)
        step = row.pop("step", np.nan)
        if 0 <= step <= MAX_STEP:
            by_step.setdefault(step, {}).update(row)
    names = dict.fromkeys(name for row in by_step.values() for name in row)
    columns = {}
    for name in names:
        points = sorted((step, row[name]) for step, row in by_step.items() if name in row)
        columns[name] = Series(*np.array(points, dtype=np.float64).T)
    return columns


def read_run(run_dir: Path) -> dict[str, Any]:
    """The content of `run.json`, empty if it is unreadable."""
    try:
        run = json.loads(_text(run_dir / "run.json"))
    except ValueError:
        return {}
    return run if isinstance(run, dict) else {}


def _text(path: Path) -> str:
    if not path.is_file():
        return ""
    return path.read_text(encoding="utf-8", errors="replace")


def _numbers(line: str) -> dict[str, float]:
    """The numbers of one row; empty for a line that is truncated or not a row."""
    try:
        row = json.loads(line, parse_int=float)
    except ValueError:
        return {}
    if not isinstance(row, dict):
        return {}
    return {name: value for name, value in row.items() if isinstance(value, float)}
