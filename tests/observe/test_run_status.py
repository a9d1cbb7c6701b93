"""The state of runs, from their files alone."""

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

from manyhands.config.runs.run_dir import LOCK
from manyhands.observe.run_status import find_runs, lock_holder, read_status

HOLD = """
import sys
from pathlib import Path
from manyhands.training.run_lock import RunLock
lock = RunLock(Path(sys.argv[1]))
lock.take()
print("held", flush=True)
sys.stdin.read()
"""


def make_run(folder: Path, ending: str | None, num_rows: int = 8) -> Path:
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps({"ending": ending, "budget": {"steps": 100}}))
    rows = [
        {"step": 10 * row, "loss": 1 / row, "step_s": 0.5 if row > 1 else 60.0, "samples_per_s": 16}
        for row in range(1, num_rows + 1)
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.fixture
def holder(tmp_path):
    """A process that holds the lock of a run."""
    run_dir = make_run(tmp_path / "run", None)
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(run_dir)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdout.readline() == "held\n"
    yield run_dir, process
    process.kill()
    process.wait(10)


@pytest.mark.new_interpreter
def test_a_run_continues_as_long_as_its_process_lives(holder):
    run_dir, process = holder
    status = read_status(run_dir)
    assert status.state == "running"
    assert (status.step, status.num_steps, status.loss) == (80, 100, 0.125)
    assert status.remaining_s == pytest.approx(10)
    assert str(process.pid) in str(lock_holder(run_dir))
    process.kill()
    process.wait(10)
    assert (run_dir / LOCK).read_text()
    assert read_status(run_dir).state == "killed"
    assert read_status(run_dir).remaining_s is None


@pytest.mark.new_interpreter
def test_a_run_that_has_just_begun_is_found_by_its_lock(holder):
    run_dir, process = holder
    for name in ("run.json", "metrics.jsonl"):
        (run_dir / name).unlink()
    assert [*find_runs(run_dir.parent)] == [run_dir]
    status = read_status(run_dir)
    assert (status.state, status.step) == ("running", 0)
    assert status.changed_at == (run_dir / LOCK).stat().st_mtime
    process.kill()
    process.wait(10)
    assert [*find_runs(run_dir.parent)] == []


@pytest.mark.parametrize("ending", ["finished", "stopped", "diverged", "failed: OSError"])
def test_a_run_that_ended_says_how(tmp_path, ending):
    status = read_status(make_run(tmp_path / "run", ending))
    assert (status.state, status.remaining_s, status.samples_per_s) == (ending, None, 16)


@pytest.mark.parametrize("ending", [None, "failed: OutOfMemoryError"])
def test_a_run_that_died_in_its_first_step_is_found(tmp_path, ending):
    run_dir = make_run(tmp_path / "run", ending)
    (run_dir / "metrics.jsonl").unlink()
    assert [*find_runs(tmp_path)] == [run_dir]
    status = read_status(run_dir)
    assert (status.state, status.step, status.num_steps) == (ending or "killed", 0, 100)
    assert status.changed_at == (run_dir / "run.json").stat().st_mtime


@pytest.mark.parametrize("content", ["", "[]", '{"name": "of another program"}'])
def test_files_of_other_programs_are_no_runs(tmp_path, content):
    (tmp_path / "run.json").write_text(content)
    assert [*find_runs(tmp_path)] == []


def test_the_status_of_a_long_run_is_that_of_its_rows(tmp_path, monkeypatch):
    run_dir = make_run(tmp_path / "run", "finished", num_rows=3000)
    rows = [json.loads(row) for row in (run_dir / "metrics.jsonl").open()]
    rows[400] |= {"eval_success": 0.3}
    rows[500] |= {"eval_success": 0.7}
    (run_dir / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    parse, parsed = json.loads, []
    monkeypatch.setattr(json, "loads", lambda text, **_: parsed.append(text) or parse(text))
    status = read_status(run_dir)
    assert len(parsed) < 1000, "the rows that count, and run.json"
    assert (status.step, status.loss, status.success) == (30000, 1 / 3000, 0.7)
    assert status.samples_per_s == 16


def test_a_damaged_row_hides_no_others(tmp_path):
    run_dir = make_run(tmp_path / "run", "finished")
    rows = (run_dir / "metrics.jsonl").read_bytes()
    (run_dir / "metrics.jsonl").write_bytes(b'{"step": 5, "loss": \xff\n' + rows)
    assert read_status(run_dir).step == 80


def test_runs_are_found_below_a_folder_and_not_inside_runs(tmp_path):
    runs = [make_run(tmp_path / name, "finished") for name in ("a", "lab/b", "lab/c")]
    make_run(tmp_path / "a" / "checkpoints" / "copy", "finished")
    make_run(tmp_path / ".hidden", "finished")
    (tmp_path / "other").mkdir()
    assert [*find_runs(tmp_path)] == runs
    assert [*find_runs(runs[0])] == [runs[0]]


@pytest.mark.parametrize(
    ("run", "row"),
    [
        ({"budget": 3}, {"step": 4, "loss": "0.3"}),
        ({"budget": {"steps": "all"}}, {"step": None, "loss": [1]}),
        ({"budget": None, "ending": 5}, {"step": math.nan, "samples_per_s": "fast"}),
    ],
)
def test_values_of_another_kind_are_as_good_as_missing_ones(tmp_path, run, row):
    run_dir = make_run(tmp_path / "run", None)
    (run_dir / "run.json").write_text(json.dumps(run))
    (run_dir / "metrics.jsonl").write_text(json.dumps(row))
    status = read_status(run_dir)
    assert (status.num_steps, status.loss, status.samples_per_s) == (None, None, None)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"step": 1', "\x00"])
def test_damaged_files_are_as_good_as_missing_ones(tmp_path, content):
    run_dir = make_run(tmp_path / "run", None)
    (run_dir / "run.json").write_text(content)
    (run_dir / "metrics.jsonl").write_text(content)
    status = read_status(run_dir)
    assert (status.state, status.step, status.loss, status.num_steps) == ("killed", 0, None, None)
