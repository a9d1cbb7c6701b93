"""The verdict on a run, from the files in its run directory."""

import json
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from manyhands.observe.diagnosis.diagnose import Diagnosis, diagnose, verdict_lines
from manyhands.observe.jsonl import integer, read_last_rows

TAIL_BYTES = 4 << 20
"""End of a file of rows that is read: all rows that count, in a fraction of a second."""
RARE = "held_out_loss"
"""Metric whose earlier rows count too: the best held-out loss may be long ago."""
PERIOD_S = 180.0
"""Time between two verdicts during training."""


class Verdict(NamedTuple):
    """The problems of a run, and the verdict in words; no words while there are too few rows."""

    diagnoses: list[Diagnosis]
    lines: list[str]

    @property
    def facts(self) -> dict[str, Any]:
        """The problems as values for a JSON file."""
        return {"diagnoses": [asdict(each) for each in self.diagnoses]}

    @property
    def outline(self) -> list[str]:
        """The verdict without numbers, which always change a little."""
        return ["".join(each for each in line if not each.isdigit()) for line in self.lines]


def read_verdict(run_dir: Path, run: Mapping[str, Any]) -> Verdict:
    """The verdict on a run by its newest rows."""
    rows, ranks = (rows_to_judge(run_dir / name) for name in ("metrics.jsonl", "ranks.jsonl"))
    found = diagnose(run, rows, ranks)
    return Verdict(found, verdict_lines(run, rows, found))


def read_facts(run_dir: Path) -> dict[str, Any]:
    """The content of run.json; empty if it is missing or damaged."""
    try:
        facts = json.loads((run_dir / "run.json").read_text(encoding="utf-8"), parse_int=integer)
    except (OSError, ValueError):
        return {}
    return facts if isinstance(facts, dict) else {}


def rows_to_judge(path: Path) -> list[dict[str, Any]]:
    """The rows of a file that a verdict depends on; none if it is missing."""
    return read_last_rows(path, TAIL_BYTES, RARE)


class VerdictWatch:
    """Judges a run every few minutes, and remembers what was said."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._since = time.monotonic()
        self._outline: list[str] = []

    @property
    def is_due(self) -> bool:
        """Whether it is time for the next verdict."""
        return time.monotonic() - self._since >= PERIOD_S

    def judge(self, run: Mapping[str, Any]) -> Verdict:
        """The current verdict, with words only where they have changed."""
        self._since = time.monotonic()
        verdict = read_verdict(self._run_dir, run)
        is_same = verdict.outline == self._outline
        self._outline = verdict.outline
        return verdict._replace(lines=[]) if is_same else verdict
