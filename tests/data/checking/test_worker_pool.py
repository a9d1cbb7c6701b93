"""Jobs in several processes."""

import json
import multiprocessing
import subprocess
import sys
from pathlib import Path

import pytest

from manyhands.data.checking.check import files_to_check
from manyhands.data.checking.jobs import jobs_for
from manyhands.data.checking.worker_pool import run_in_processes, run_jobs

PROGRAM = Path(__file__).with_name("pool_program.py")
DEADLINE_S = 60


def run_program(*files: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(PROGRAM), *files]
    return subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)


@pytest.mark.process
def test_what_ends_or_holds_up_a_process_is_found_and_costs_nothing_else():
    done = run_program("a,b", "c,die 1,d", "hang 1", "e", "f,g")
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    fine = {message for message, severity, is_lasting, _ in rows if severity == "warning"}
    lost = {message for message, severity, is_lasting, _ in rows if severity == "bad"}
    assert fine == {f"{each}: fine" for each in "abcdefg"}
    assert lost == {
        "die 1: the check process died with SIGSEGV",
        "hang 1: the check timed out",
    }
    assert len(rows) == 9
    assert all(is_lasting == (severity == "warning") for _, severity, is_lasting, _ in rows)


@pytest.mark.process
def test_an_error_of_ours_is_no_fault_of_the_dataset():
    done = run_program("a", "fail")
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr


@pytest.mark.process
def test_processes_find_what_this_one_finds(source_of, damaged_root):
    (damaged_root / "data/chunk-000/file-000.parquet").write_bytes(b"garbage")
    source = source_of(damaged_root)
    files = [*files_to_check(source, source.meta.info.features, is_full=True)]
    jobs = [job for file in files for job in jobs_for([file])]
    here = [report.findings for _, report in run_jobs(jobs, num_workers=0)]
    there = [(job.files, report.findings) for job, report in run_in_processes(jobs, 2)]
    assert all((job.files, found) in there for job, found in zip(jobs, here, strict=True))
    assert len(there) == len(jobs)
    assert sum(map(len, here)) == 1


def test_little_work_is_done_in_this_process(source_of, plain_root):
    source = source_of(plain_root)
    jobs = [*jobs_for(files_to_check(source, source.meta.info.features, is_full=True))]
    before = multiprocessing.active_children()
    assert len([*run_jobs(jobs * 8, num_workers=8)]) == 8
    assert multiprocessing.active_children() == before
