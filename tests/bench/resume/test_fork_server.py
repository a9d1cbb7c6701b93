"""Processes that start at once."""

import os
import signal
import sys
import time
from pathlib import Path

import psutil
import pytest

from manyhands_bench.resume.fork_server import ForkServer, start_program

DEADLINE_S = 60
SERVER = """
import os, signal, sys, time
from manyhands_bench.resume.fork_server import serve

def train(arguments):
    # One write a line: several processes print to one file.
    said = " ".join([*arguments, os.environ.get("RANK", "-"), os.environ.get("WORLD_SIZE", "-")])
    os.write(1, f"{said} {os.environ['GREETING']}\\n".encode())
    if "wait" in arguments:
        time.sleep(600)
    if "die" in arguments and os.environ["RANK"] == "1":
        os.kill(os.getpid(), signal.SIGSEGV)
    if "die" in arguments:
        time.sleep(600)
    return int(arguments[-1])

serve(train)
"""


@pytest.fixture(scope="module")
def nursery():
    with ForkServer([sys.executable, "-c", SERVER], {"GREETING": "hello"}) as nursery:
        yield nursery


def lines_of(log: Path, number: int) -> list[str]:
    """What was printed, once that many lines are there."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        lines = log.read_text().splitlines() if log.exists() else []
        if len(lines) >= number:
            return lines
        time.sleep(0.02)
    raise AssertionError(f"{log} has only {lines}")


@pytest.mark.process
def test_a_single_process_is_no_rank_and_its_exit_code_comes_back(nursery, tmp_path):
    log = tmp_path / "log"
    for code in (0, 3):
        assert nursery.wait(nursery.start(["now", str(code)], 1, log)) == code
    assert log.read_text() == "now 0 - - hello\nnow 3 - - hello\n"


@pytest.mark.process
def test_several_ranks_know_their_places(nursery, tmp_path):
    log = tmp_path / "log"
    assert nursery.wait(nursery.start(["0"], 3, log)) == 0
    assert sorted(log.read_text().splitlines()) == [f"0 {rank} 3 hello" for rank in range(3)]
    assert nursery.wait(nursery.start(["7"], 2, log)) == 7


@pytest.mark.process
def test_ranks_that_outlive_one_that_died_are_ended_and_it_is_named(nursery, tmp_path):
    log = tmp_path / "log"
    assert nursery.wait(nursery.start(["die", "0"], 2, log)) == 128 + signal.SIGSEGV
    assert log.read_text().splitlines()[-1] == "manyhands: rank 1 was killed by SIGSEGV"


@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="the kernel tells of a parent's death on Linux")
def test_ranks_end_with_their_launcher(nursery, tmp_path):
    pid = nursery.start(["wait"], 2, tmp_path / "log")
    lines_of(tmp_path / "log", 2)
    ranks = psutil.Process(pid).children()
    os.kill(pid, signal.SIGKILL)
    assert nursery.wait(pid) == -signal.SIGKILL
    assert len(ranks) == 2 and psutil.wait_procs(ranks, DEADLINE_S)[1] == []


@pytest.mark.process
def test_a_program_prints_to_its_file_and_reads_nothing(tmp_path):
    code = "import os, sys; print(sys.stdin.read(), os.environ['GREETING']); sys.exit(4)"
    program = start_program([sys.executable, "-c", code], tmp_path / "log", {"GREETING": "hi"})
    assert program.wait(DEADLINE_S) == 4
    assert (tmp_path / "log").read_text() == " hi\n"
