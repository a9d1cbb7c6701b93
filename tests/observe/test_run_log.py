"""The record of a run."""

import json
import shutil
from pathlib import Path

import pytest
from logged_metrics import METRICS

from manyhands.errors import EnvironmentFault, Stopped
from manyhands.observe.run_log import NullRunLog, RunLog


def facts(run_dir: Path) -> dict:
    return json.loads((run_dir / "run.json").read_text())


def test_a_run_leaves_its_files(tmp_path: Path):
    run_log = RunLog(tmp_path, 10, 0)
    run_log.log_start({"precision": "float32"}, ["a banner"])
    with run_log.following():
        run_log.record(1, METRICS)
    run_log.log_end("finished")
    assert facts(tmp_path)["precision"] == "float32"
    assert facts(tmp_path)["ending"] == "finished"
    assert facts(tmp_path)["wall_s"] >= 0
    assert json.loads((tmp_path / "metrics.jsonl").read_text()) == {"step": 1, **METRICS}
    log = (tmp_path / "log.txt").read_text()
    assert "a banner" in log
    assert "step 1/10" in log


def test_the_time_of_a_run_is_that_of_all_its_processes(tmp_path: Path, monkeypatch):
    now = 1000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    for seconds, is_killed in ((100, False), (20, True), (3, False)):
        run_log = RunLog(tmp_path, 10, 0)
        run_log.log_start({}, [])
        now += seconds
        run_log.note({"step_mode": "eager"})
        if is_killed:
            assert facts(tmp_path)["ending"] is None
            now += 5000
        else:
            run_log.log_end("finished")
    assert facts(tmp_path)["wall_s"] == 123.0


@pytest.mark.parametrize("written", ['{"wall_s": null}', '{"wall_s": NaN}', "[]", "{", '{"a": 1}'])
def test_an_earlier_time_that_is_unknown_counts_as_none(tmp_path: Path, written: str):
    (tmp_path / "run.json").write_text(written)
    run_log = RunLog(tmp_path, 10, 0)
    run_log.log_start({}, [])
    assert 0 <= facts(tmp_path)["wall_s"] < 100


def test_a_run_that_goes_back_forgets_measures_but_no_incident(tmp_path: Path):
    run_log = RunLog(tmp_path, 10, 0)
    for step in (1, 2, 3):
        run_log.record(step, METRICS)
    run_log.record_incident(3, {"loss": None})
    run_log.truncate(2)
    run_log.record(3, METRICS)
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [1, 2, 3]
    incidents = (tmp_path / "nonfinite.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in incidents] == [{"step": 3, "loss": None}]


def test_a_failure_is_recorded_and_passed_on(tmp_path: Path):
    run_log = RunLog(tmp_path, 10, 0)
    with pytest.raises(ZeroDivisionError), run_log.following():
        raise ZeroDivisionError
    assert facts(tmp_path)["ending"] == "failed: ZeroDivisionError"


def test_a_run_that_is_stopped_has_not_failed(tmp_path: Path):
    run_log = RunLog(tmp_path, 10, 0)
    with pytest.raises(Stopped), run_log.following():
        raise Stopped
    assert facts(tmp_path)["ending"] == "stopped"


def test_a_run_that_the_user_quits_says_so_once_in_all_records(tmp_path: Path):
    run_log = RunLog(tmp_path, 10, 0)
    ending = "quit without saving: resume continues from step 5"
    with pytest.raises(KeyboardInterrupt), run_log.following(lambda: ending):
        run_log.log_quit(ending)
        raise KeyboardInterrupt
    assert facts(tmp_path)["ending"] == ending
    assert (tmp_path / "log.txt").read_text().count(ending) == 1


def test_a_measure_that_the_last_record_lacks_can_be_added(tmp_path: Path):
    run_log = RunLog(tmp_path, 10, 0)
    assert not run_log.lacks(1, "held_out_loss")
    run_log.record(1, METRICS)
    assert run_log.lacks(1, "held_out_loss")
    assert not run_log.lacks(2, "held_out_loss")
    run_log.amend(1, {})
    run_log.amend(1, {"held_out_loss": 2.0})
    assert not run_log.lacks(1, "held_out_loss")
    row = json.loads((tmp_path / "metrics.jsonl").read_text())
    assert row == {"step": 1, **METRICS, "held_out_loss": 2.0}


def test_other_ranks_keep_no_record(tmp_path: Path, capsys):
    run_log = NullRunLog()
    run_log.log_start({}, ["a banner"])
    with run_log.following():
        run_log.record(1, METRICS)
        run_log.record_incident(1, {})
        run_log.truncate(0)
    run_log.log_end("finished")
    assert capsys.readouterr().out == ""


def test_a_full_disk_costs_no_run_and_no_row(tmp_path: Path, small_files, capsys):
    run_log = RunLog(tmp_path, 10, 0)
    run_log.log_start({}, [])
    with run_log.following():
        run_log.record(1, METRICS)
        with small_files(10):
            run_log.record(2, METRICS)
            run_log.note({"more": 1})
            run_log.log_line("a word")
        run_log.record(3, METRICS)
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [1, 2, 3]
    assert "a word" in (tmp_path / "log.txt").read_text()
    printed = " ".join(capsys.readouterr().out.split())
    assert printed.count(": File too large. Training continues") == 1


def test_a_disk_that_is_full_before_the_first_step_is_a_usage_error(tmp_path: Path, small_files):
    run_log = RunLog(tmp_path, 10, 0)
    with small_files(10), pytest.raises(EnvironmentFault, match=r"--output_dir=.*File too large"):
        run_log.log_start({}, [])


def test_a_run_whose_folder_was_removed_ends_with_its_name(tmp_path: Path):
    run_dir = tmp_path / "run"
    run_log = RunLog(run_dir, 10, 0)
    told = "run was removed or unmounted"
    with pytest.raises(EnvironmentFault, match=told), run_log.following():
        shutil.rmtree(run_dir)
        run_log.record(1, METRICS)
    assert not run_dir.exists()


def test_rows_of_ranks_are_dropped_with_those_of_the_run(tmp_path: Path):
    run_log = RunLog(tmp_path, 10, 0)
    for step in (1, 2, 3):
        run_log.record_ranks(step, [{"rank": 0}, {"rank": 1}])
    run_log.truncate(2)
    rows = [json.loads(line) for line in (tmp_path / "ranks.jsonl").read_text().splitlines()]
    assert [(row["step"], row["rank"]) for row in rows] == [(1, 0), (1, 1), (2, 0), (2, 1)]


def test_the_last_verdict_is_kept_and_logged_once(tmp_path: Path):
    run_log = RunLog(tmp_path, 100, 0)
    run_log.log_start({}, [])
    for step in range(1, 20):
        run_log.record(step, {**METRICS, "step_s": 1.0, "data_s": 0.5})
    run_log.log_verdict({"step_mode": "eager"})
    assert "diagnoses" not in facts(tmp_path)
    for _ in range(2):
        run_log.log_verdict({"step_mode": "eager"}, at_end=True)
    assert facts(tmp_path)["step_mode"] == "eager"
    assert [each["kind"] for each in facts(tmp_path)["diagnoses"]] == ["decode_bound"]
    assert (tmp_path / "log.txt").read_text().count("50% of each step waits for data") == 1


def test_a_run_that_fails_has_its_verdict_too(tmp_path: Path):
    run_log = RunLog(tmp_path, 100, 0)
    run_log.log_start({}, [])
    with pytest.raises(ZeroDivisionError), run_log.following():
        for step in range(1, 20):
            run_log.record(step, {**METRICS, "step_s": 1.0, "data_s": 0.5})
        raise ZeroDivisionError
    assert [each["kind"] for each in facts(tmp_path)["diagnoses"]] == ["decode_bound"]
    assert facts(tmp_path)["ending"] == "failed: ZeroDivisionError"
