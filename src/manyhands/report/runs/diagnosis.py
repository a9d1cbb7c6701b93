"""What a diagnosis of a run finds, for its page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from manyhands.observe.diagnosis.diagnose import Diagnosis, diagnose
from manyhands.report.text import clipped

Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Finding:
    """A finding as texts of a page."""

    severity: str
    text: str
    remedy: str
    gain: str


def findings(run: Mapping[str, Any], rows: Rows, ranks: Rows) -> list[Finding]:
    """What the files of a run reveal."""
    return shown(diagnose(run, rows, ranks))


def shown(found: Sequence[Diagnosis]) -> list[Finding]:
    """Findings as texts, warnings first."""
    ordered = sorted(found, key=lambda each: each.severity != "warning")
    return [
        Finding(*(clipped(text) for text in (each.severity, each.text, each.remedy, each.gain)))
        for each in ordered
    ]
