"""The record of a run."""

import json
from pathlib import Path

import pytest

from manyhands.observe.journal import Journal, SilentJournal

METRICS = {
    "loss": 1.5,
    "lr": 1e-5,
    "grad_norm": 3.25,
    "samples_per_s": 120.0,
    "data_wait_share": 0.25,
    "step_s": 0.5,
}


def facts(run_dir: Path) -> dict:
    return json.loads((run_dir / "run.json").read_text())


def test_a_run_leaves_its_files(tmp_path: Path):
    journal = Journal(tmp_path, 10, 0)
    journal.introduce({"precision": "float32"}, ["a banner"])
    with journal.following():
        journal.record(1, METRICS)
    journal.conclude("finished")
    assert facts(tmp_path)["precision"] == "float32"
    assert facts(tmp_path)["ending"] == "finished"
    assert facts(tmp_path)["wall_s"] >= 0
    assert json.loads((tmp_path / "metrics.jsonl").read_text()) == {"step": 1, **METRICS}
    log = (tmp_path / "log.txt").read_text()
    assert "a banner" in log
    assert "step 1/10" in log


def test_a_failure_is_recorded_and_passed_on(tmp_path: Path):
    journal = Journal(tmp_path, 10, 0)
    with pytest.raises(ZeroDivisionError), journal.following():
        raise ZeroDivisionError
    assert facts(tmp_path)["ending"] == "failed: ZeroDivisionError"


def test_other_ranks_keep_no_record(tmp_path: Path, capsys):
    journal = SilentJournal()
    journal.introduce({}, ["a banner"])
    with journal.following():
        journal.record(1, METRICS)
    journal.conclude("finished")
    assert capsys.readouterr().out == ""
