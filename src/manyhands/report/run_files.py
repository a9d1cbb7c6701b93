"""The two files a report is made from, read as far as they can be read.

A run may still be writing them, may have died in the middle of a line, or may come from another
version: what cannot be parsed is skipped, never an error.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from manyhands.report.series import Series

MAX_STEP = 2**53
"""Up to here a float counts without skipping; no run gets there."""


def read_metrics(run_dir: Path) -> dict[str, Series]:
    """The numbers in `metrics.jsonl` by name; a step logged again after a resume counts once."""
    by_step: dict[float, dict[str, float]] = {}
    for line in _text(run_dir / "metrics.jsonl").splitlines():
        row = _numbers(line)
        step = row.pop("step", np.nan)
        if 0 <= step <= MAX_STEP:
            by_step.setdefault(step, {}).update(row)
    names = dict.fromkeys(name for row in by_step.values() for name in row)
    return {name: _column(name, by_step) for name in names}


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


def _column(name: str, by_step: dict[float, dict[str, float]]) -> Series:
    points = sorted((step, row[name]) for step, row in by_step.items() if name in row)
    steps, values = np.array(points, dtype=np.float64).T
    return Series(steps, values)
