"""The verdict on a run directory, during training and after."""

import json

from diagnosis_cases import RUN, healthy_rows, rank_rows, write_run

from manyhands.observe.diagnosis import run_verdict
from manyhands.observe.diagnosis.run_verdict import (
    VerdictWatch,
    read_facts,
    read_verdict,
    rows_to_judge,
)


def slow_rows(share: float = 0.5):
    rows = healthy_rows(20)
    for row in rows:
        row["data_s"] = share * row["step_s"]
        row["gpu_utilization"] = 0.4
    return rows


def test_a_verdict_is_read_from_the_files_of_a_run(tmp_path):
    rows = slow_rows()
    run_dir = write_run(tmp_path, rows, rank_rows(rows))
    verdict = read_verdict(run_dir, read_facts(run_dir))
    assert [each.kind for each in verdict.diagnoses] == ["decode_bound"]
    (facts,) = verdict.facts["diagnoses"]
    assert json.loads(json.dumps(facts))["remedy"] == "Set --num_workers=7"


def test_files_that_are_missing_or_damaged_give_no_verdict(tmp_path):
    assert read_verdict(tmp_path, read_facts(tmp_path)).lines == []
    (tmp_path / "run.json").write_text("{")
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "step_s": 0.1}\n[1]\n{"step"')
    assert read_facts(tmp_path) == {}
    assert len(rows_to_judge(tmp_path / "metrics.jsonl")) == 1


def test_held_out_losses_of_a_long_file_are_all_judged(tmp_path, monkeypatch):
    monkeypatch.setattr(run_verdict, "TAIL_BYTES", 1000)
    rows = [{"step": step, "held_out_loss" if step % 50 == 7 else "loss": 1} for step in range(500)]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = rows_to_judge(tmp_path / "metrics.jsonl")
    assert [row["step"] for row in found if "held_out_loss" in row] == [*range(7, 500, 50)]
    assert found[-30:] == rows[-30:] and len(found) < 100


def test_words_are_repeated_only_when_more_than_numbers_changed(tmp_path):
    watch = VerdictWatch(write_run(tmp_path, slow_rows(0.50), []))
    assert any("waits for data" in line for line in watch.judge(RUN).lines)
    write_run(tmp_path, slow_rows(0.51), [])
    again = watch.judge(RUN)
    assert again.lines == [] and again.diagnoses
    write_run(tmp_path, healthy_rows(20), [])
    assert watch.judge(RUN).lines == ["GPU utilization: 96% (good)"]


def test_a_verdict_is_due_every_few_minutes(tmp_path, monkeypatch):
    watch = VerdictWatch(tmp_path)
    assert not watch.is_due
    monkeypatch.setattr(run_verdict, "PERIOD_S", 0.0)
    assert watch.is_due
