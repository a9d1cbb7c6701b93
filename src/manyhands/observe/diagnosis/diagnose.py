"""Verdict on a run from its files alone: what is wrong, which flag helps, what that gains."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from manyhands.observe.diagnosis.advice import Diagnosis, utilization_band
from manyhands.observe.diagnosis.bottlenecks import bottlenecks
from manyhands.observe.diagnosis.history import History
from manyhands.observe.diagnosis.loss_health import loss_problems

__all__ = ["Diagnosis", "diagnose", "verdict_lines"]

Rows = Sequence[Mapping[str, Any]]


def diagnose(run: Mapping[str, Any], rows: Rows, ranks: Rows) -> list[Diagnosis]:
    """The problems of a run, warnings first; none of a healthy run, or of one too short to tell."""
    history = History(run, rows, ranks)
    if not history.has_enough:
        return []
    found = [*bottlenecks(history), *loss_problems(history)]
    return sorted(found, key=lambda each: each.severity != "warning")


def verdict_lines(run: Mapping[str, Any], rows: Rows, diagnoses: Iterable[Diagnosis]) -> list[str]:
    """The verdict in words; nothing while there are too few rows."""
    history = History(run, rows, [])
    if not history.has_enough:
        return []
    utilization = history.typical("gpu_utilization")
    gpu = [] if utilization is None else [utilization_line(utilization)]
    return [*gpu, *(map(str, diagnoses))] or ["Diagnosis: no problem found"]


def utilization_line(utilization: float) -> str:
    """The utilization of the least used GPU in words."""
    return f"GPU utilization: {utilization:.0%} ({utilization_band(utilization)})"
