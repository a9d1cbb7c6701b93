"""A run examined after the fact."""

import io
import json

import pytest
from diagnosis_cases import healthy_rows, rank_rows, write_run
from rich.console import Console

from manyhands.doctor.run import examine_run, phases_table
from manyhands.errors import UserError
from manyhands.observe.diagnosis.advice import KINDS


def test_every_kind_of_problem_has_a_check(tmp_path):
    rows = healthy_rows(60)
    for row in rows:
        row["data_s"], row["gpu_utilization"] = 0.5 * row["step_s"], 0.4
    found = examine_run(write_run(tmp_path, rows, rank_rows(rows)))
    states = {check.name: check.state for check in found.checks}
    assert set(states) == set(KINDS.values())
    assert [name for name, state in states.items() if state != "ok"] == ["data loading"]
    document = json.loads(json.dumps(found.as_json()))
    assert document["diagnoses"][0]["kind"] == "decode_bound"
    assert document["phases"]["data_s"] == pytest.approx(0.5 * document["step_s"], rel=0.1)


def test_what_was_not_measured_is_not_called_fine(tmp_path):
    names = ("step", "step_s", "data_s", "loss")
    rows = [{name: row[name] for name in names} for row in healthy_rows(20)]
    found = examine_run(write_run(tmp_path, rows, []))
    states = {check.name: check.state for check in found.checks}
    assert states["data loading"] == states["checkpoints"] == "ok"
    for name in ("GPU utilization", "communication", "slow ranks", "overfitting", "learning rate"):
        assert states[name] == "skipped"


def test_phases_that_were_not_measured_are_not_shown(tmp_path):
    rows = [{**row, "communication_s": None} for row in healthy_rows(20)]
    found = examine_run(write_run(tmp_path, rows, []))
    console = Console(file=io.StringIO(), width=100)
    console.print(phases_table(found))
    text = console.file.getvalue()
    assert "forward" in text and "30%" in text and "communication" not in text


def test_a_run_that_is_too_short_is_not_called_fine(tmp_path):
    found = examine_run(write_run(tmp_path, healthy_rows(3), []))
    assert {check.state for check in found.checks} == {"skipped"}
    assert found.verdict.lines == []


def test_a_folder_without_a_run_is_a_usage_error(tmp_path):
    with pytest.raises(UserError, match=r"has no metrics.jsonl"):
        examine_run(tmp_path)
