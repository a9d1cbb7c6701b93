"""Runs survive kill -9 at any moment."""

import json
import sys
from collections import Counter

import pytest

from manyhands_bench.config import BenchResumeConfig
from manyhands_bench.resume.campaign import ResumeResult, bench_resume
from manyhands_bench.resume.delay import Delay
from manyhands_bench.resume.trial import Tally

DEADLINE_S = 1200
"""Half a minute on two idle cores; other programs may keep them busy."""


@pytest.mark.soak
@pytest.mark.process
@pytest.mark.timeout(DEADLINE_S)
def test_kills_of_a_run_leave_no_trace(command, tmp_path):
    """All policies and strategies are killed by `make soak`."""
    file = tmp_path / "result.json"
    program = [sys.executable, "-m", "manyhands", "bench", "resume", "--kills=2", "--saves=0"]
    flags = ["--cases=[act-ddp]", f"--json={file}", f"--folder={tmp_path / 'runs'}"]
    printed = command.run([*program, *flags], deadline_s=DEADLINE_S)
    result = json.loads(file.read_text())
    assert (result["kills"], result["failures"]) == (2, 0), printed
    assert [case["case"] for case in result["cases"]] == ["act-ddp"]
    assert result["async_over_sync"] is None and "2 moments" in printed


def test_where_nothing_is_killed_and_nothing_timed_nothing_stays():
    result = bench_resume(BenchResumeConfig(kills=0, saves=0), lambda *now: None)
    assert (result.kills, result.failures, result.folder, result.delay) == (0, [], None, None)


def test_a_folder_that_was_named_stays(tmp_path):
    folder = tmp_path / "runs"
    result = bench_resume(BenchResumeConfig(kills=0, saves=0, folder=folder), lambda *now: None)
    assert result.folder == folder and (folder / "dataset" / "meta").is_dir()


def test_programs_find_what_was_found():
    one = Tally("act-ddp", victims=Counter({"rank 0": 2, "launcher": 1}), runs=2)
    other = Tally("act-fsdp", victims=Counter({"rank 1": 1}), failures=["it differs"])
    delay = Delay(state_bytes=5, update_s=0.1, sync_s=2.0, async_s=0.1)
    result = ResumeResult(seed=3, tallies=[one, other], delay=delay, wall_s=1.0, folder=None)
    document = json.loads(json.dumps(result.as_json()))
    assert (document["kills"], document["failures"], document["async_over_sync"]) == (4, 1, 0.05)
    assert document["cases"][0]["victims"] == {"rank 0": 2, "launcher": 1}
    assert document["cases"][1]["failures"] == ["it differs"] and document["seed"] == 3
