"""What a diagnosis of a run finds, for its page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

from manyhands.report.text import clipped

Rows = Sequence[Mapping[str, Any]]


class Diagnosis(Protocol):
    """A finding: how severe it is, what to do, and what that gains."""

    severity: str
    text: str
    remedy: str
    gain: str


@dataclass(frozen=True)
class Finding:
    """A finding as texts of a page."""

    severity: str
    text: str
    remedy: str
    gain: str


def findings(run: Mapping[str, Any], rows: Rows, ranks: Rows) -> list[Finding] | None:
    """What the files of a run reveal; None where nothing can diagnose them."""
    try:
        diagnose = import_module("manyhands.observe.diagnosis").diagnose
    except ImportError:
        return None
    return shown(diagnose(run, rows, ranks))


def shown(found: Sequence[Diagnosis]) -> list[Finding]:
    """Findings as texts, warnings first."""
    ordered = sorted(found, key=lambda each: each.severity != "warning")
    return [
        Finding(*(clipped(text) for text in (each.severity, each.text, each.remedy, each.gain)))
        for each in ordered
    ]
