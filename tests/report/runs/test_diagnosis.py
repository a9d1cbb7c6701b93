"""A diagnosis reaches the page."""

from page_runs import HOSTILE, PageReader

from manyhands.observe.diagnosis.diagnose import Diagnosis
from manyhands.report.page import fragment
from manyhands.report.runs.diagnosis import findings, shown

NOTE = Diagnosis(
    "batch", "note", "Half of the memory is free.", "Set --batch_size=16.", "1.4 times"
)
WARNING = Diagnosis("data", "warning", f"Ranks wait for data {HOSTILE}", "Set --num_workers=8.", "")


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


def test_the_files_of_a_run_are_diagnosed() -> None:
    rows = [{"step": step, "step_s": 1.0, "data_s": 0.5, "loss": 1.0} for step in range(1, 20)]
    (found,) = findings({}, rows, [])
    assert "waits 500 ms" in found.text and found.severity == "warning"
