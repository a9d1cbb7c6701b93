"""A diagnosis reaches the page."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest
from page_runs import HOSTILE, PageReader

from manyhands.report.diagnosis import findings, shown
from manyhands.report.page import fragment


@dataclass(frozen=True)
class Found:
    kind: str
    severity: str
    text: str
    remedy: str
    gain: str


Rows = Sequence[Mapping[str, Any]]
NOTE = Found("batch", "note", "Half of the memory is free.", "Set --batch_size=16.", "1.4 times")
WARNING = Found("data", "warning", f"Ranks wait for data {HOSTILE}", "Set --num_workers=8.", "")


def test_warnings_come_before_notes_and_all_texts_are_shown() -> None:
    found = shown([NOTE, WARNING])
    assert [each.severity for each in found] == ["warning", "note"]
    runs = [{"title": "", "findings": found}]
    page = PageReader(fragment("diagnosis", {"runs": runs}))
    for text in (WARNING.text, WARNING.remedy, NOTE.text, NOTE.remedy, NOTE.gain):
        assert text in page.text
    assert not page.tags("script")


def test_a_sound_run_is_said_to_be_sound() -> None:
    html = fragment("diagnosis", {"runs": [{"title": "", "findings": []}]})
    assert "No problem found" in html


def test_the_diagnosis_gets_the_files_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def diagnose(run: Mapping[str, Any], rows: Rows, ranks: Rows) -> list[Found]:
        assert (run, rows, ranks) == ({"a": 1}, [{"step": 1}], [{"rank": 0}])
        return [NOTE]

    module = ModuleType("manyhands.observe.diagnosis")
    module.diagnose = diagnose  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "manyhands.observe.diagnosis", module)
    (found,) = findings({"a": 1}, [{"step": 1}], [{"rank": 0}]) or []
    assert found.remedy == NOTE.remedy


def test_without_a_diagnosis_nothing_is_found_or_denied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "manyhands.observe.diagnosis", None)
    assert findings({}, [], []) is None
