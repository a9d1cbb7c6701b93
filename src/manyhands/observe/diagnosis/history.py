"""Measurements of a run, prepared for diagnosis: rows of steady training only, robust statistics.

Rows of a warm-up are no evidence: the first row of a run or resume has the start of the loader and
the capture of a CUDA graph, and a row in which steps switch to compiled kernels has their capture.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import Any

from manyhands.observe.jsonl import UNFINISHED

Row = Mapping[str, Any]

MAX_ROWS = 500
"""Newest rows that are considered: a run of days must not hide what happens now."""
NUM_RECENT = 30
"""Newest rows that speed is judged by: a run that has become fast or slow is judged as it is."""
MIN_ROWS = 5
"""Rows of steady training without which there is no verdict."""
MAX_UNEXPLAINED = 3.0
"""A row with more than this multiple of the usual unexplained time per step held something else."""
EXPLAINED = ("data_s", "checkpoint_s")
TO_DEVIATION = 1.4826
"""Factor from the median absolute deviation to the standard deviation of a normal."""


@dataclass(frozen=True)
class History:
    """A run, its rows of metrics and the rows of its ranks."""

    run: Row
    rows: Sequence[Row]
    ranks: Sequence[Row]

    def setting(self, name: str, default: Any = None) -> Any:
        """A value of the run's config by its dotted flag name."""
        return self.fact(f"config.{name}", default)

    def fact(self, name: str, default: Any = None) -> Any:
        """A value of run.json by its dotted name."""
        value: Any = self.run
        for part in name.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        return default if value is None else value

    @cached_property
    def settled(self) -> list[Row]:
        """The newest rows after the warm-up, in order, each with its number of steps."""
        rows = [*_counted(self.rows[-MAX_ROWS:])]
        resumed_at = self.run.get("resumed_at") or 0
        first = {1, min((row["step"] for row in rows if row["step"] > resumed_at), default=1)}
        return [row for row in rows if row["step"] not in first and not row.get(UNFINISHED)]

    @cached_property
    def steady(self) -> list[Row]:
        """The same without rows that held something else than training."""
        usual = median(map(unexplained_s, self.settled[-NUM_RECENT:])) if self.settled else 0.0
        return [row for row in self.settled if unexplained_s(row) <= MAX_UNEXPLAINED * usual]

    @property
    def recent(self) -> list[Row]:
        """The rows that speed is judged by."""
        return self.steady[-NUM_RECENT:]

    @property
    def has_enough(self) -> bool:
        """Whether there are enough rows for a verdict."""
        return len(self.steady) >= MIN_ROWS

    def typical(self, name: str) -> float | None:
        """The median of a measure over recent rows; None where it was not measured."""
        found = values(name, self.recent)
        return median(found) if len(found) >= MIN_ROWS else None

    def mean(self, name: str) -> float | None:
        """Seconds per step of a phase over recent rows; None where it was not measured."""
        return self.share(name, self.recent) * self._step_s if values(name, self.recent) else None

    @property
    def _step_s(self) -> float:
        return self.typical("step_s") or 0.0

    def share(self, name: str, rows: Sequence[Row]) -> float:
        """The fraction of the step time that a phase takes; zero where it was not measured."""
        whole = sum(row["step_s"] * row["num_steps"] for row in rows)
        spent = sum(number(row, name) * row["num_steps"] for row in rows)
        return spent / whole if whole > 0 else 0.0

    def usual_share(self, name: str) -> float:
        """The same over recent rows without their worst one, which may be a single incident."""
        rows = sorted(self.recent, key=lambda row: number(row, name) / row["step_s"])
        return self.share(name, rows[:-1])

    @cached_property
    def by_rank(self) -> dict[int, list[Row]]:
        """The recent rows of every rank, of steps with a steady row."""
        steps = {row["step"] for row in self.recent}
        found: dict[int, list[Row]] = {}
        for row in self.ranks:
            if number(row, "step") in steps and "rank" in row and number(row, "step_s") > 0:
                found.setdefault(int(number(row, "rank")), []).append(row)
        return {rank: rows for rank, rows in found.items() if len(rows) >= MIN_ROWS}


def _counted(rows: Sequence[Row]) -> Iterable[Row]:
    """Rows that can be judged, with the number of steps since the row before."""
    before: float | None = None
    for row in rows:
        step = number(row, "step")
        if step <= 0:
            continue
        if number(row, "step_s") > 0:
            # What came before the first of these rows is not known.
            num_steps = 1 if before is None else max(1, step - before)
            yield {**row, "step": step, "num_steps": num_steps}
        before = step


def unexplained_s(row: Row) -> float:
    """Seconds of a step besides waiting for data and saving, which have diagnoses of their own."""
    return number(row, "step_s") - sum(number(row, name) for name in EXPLAINED)


def number(row: Row, name: str) -> float:
    """A measure of a row; zero where it is missing, or no finite number."""
    value = row.get(name)
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else 0.0


def values(name: str, rows: Iterable[Row]) -> list[float]:
    """A measure in all rows that have it."""
    return [float(row[name]) for row in rows if isinstance(row.get(name), int | float)]


def deviation(numbers: Sequence[float]) -> float:
    """The standard deviation of a normal distribution with this median absolute deviation."""
    middle = median(numbers)
    return TO_DEVIATION * median(abs(each - middle) for each in numbers)
