"""The processes of a run."""

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from manyhands_bench.resume.fork_server import ForkServer
from manyhands_bench.resume.processes import Member, Starter, adopting, chosen

DEADLINE_S = 60
SERVER = """
import os, subprocess, sys, time
from manyhands_bench.resume.fork_server import serve

def train(arguments):
    if "loader" in arguments:
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        time.sleep(600)
    if "orphan" in arguments:
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1.5)"])
    if "stay" in arguments:
        subprocess.Popen(["sleep", "600"], start_new_session=True)
    if "wait" in arguments:
        time.sleep(600)
    return 0

serve(train)
"""


@pytest.fixture(scope="module")
def starter(tmp_path_factory):
    with adopting(), ForkServer([sys.executable, "-c", SERVER], {}) as nursery:
        yield Starter(nursery, tmp_path_factory.mktemp("home"))


@pytest.fixture
def log(tmp_path):
    return tmp_path / "log"


def roles_of(started, number):
    """The roles of all members, once there are that many."""
    deadline = time.monotonic() + DEADLINE_S
    while len(started.members()) < number:
        assert time.monotonic() < deadline, started.members()
        time.sleep(0.05)
    return [member.role for member in started.members()]


@pytest.mark.skipif(sys.platform != "linux", reason="orphans are adopted on Linux")
def test_only_inside_the_block_orphans_become_children():
    orphaning = "import subprocess as s; print(s.Popen(['sleep', '600'], stdout=-3, stderr=-3).pid)"

    def parent_of_orphan():
        done = subprocess.run([sys.executable, "-c", orphaning], capture_output=True, check=True)
        orphan = psutil.Process(int(done.stdout))
        parent = orphan.ppid()
        orphan.kill()
        if parent == os.getpid():
            os.waitpid(orphan.pid, 0)
        return parent

    with adopting():
        assert parent_of_orphan() == os.getpid()
    assert parent_of_orphan() != os.getpid()


@pytest.mark.process
def test_a_single_process_is_rank_0_and_what_it_starts_are_loaders(starter, log):
    started = starter.fork(["loader"], 1, log)
    assert roles_of(started, 2) == ["rank 0", "loader"]
    assert not started.is_over() and starter.left() != []
    for member in started.members():
        member.kill()
    assert started.wait() == -signal.SIGKILL
    assert starter.clear() == []


@pytest.mark.process
def test_a_launcher_comes_before_its_ranks(starter, log):
    started = starter.fork(["wait"], 2, log)
    assert roles_of(started, 3) == ["launcher", "rank 0", "rank 1"]
    started.members()[0].kill()
    assert started.wait() == -signal.SIGKILL
    assert starter.clear() == []


@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="orphans are adopted on Linux")
def test_an_orphan_is_waited_for_and_one_that_stays_is_told_and_ended(starter, log, monkeypatch):
    starter.fork(["orphan"], 1, log).wait()
    assert starter.left() != [] and starter.clear() == []
    monkeypatch.setattr("manyhands_bench.resume.processes.LEAVE_S", 0.3)
    starter.fork(["stay"], 1, log).wait()
    (told,) = starter.clear()
    assert "is still running: sleep 600" in told
    assert starter.clear(at_once=True) == []


@pytest.mark.process
def test_the_program_is_started_as_users_do(starter, log):
    started = starter.launch(["--print_config", "--policy=act", "--dataset.root=x"], 1, log)
    assert started.wait() == 0, log.read_text()
    assert "type: act" in log.read_text()
    assert starter.clear() == []


def test_roles_are_equally_likely_however_many_processes_have_them():
    process = psutil.Process()
    members = [Member(process, role) for role in ("launcher", "rank 0", "loader", "loader")]
    assert [chosen(members, share).role for share in (0, 0.3, 0.4, 0.7, 0.9)] == [
        *("launcher", "launcher", "rank 0", "loader", "loader")
    ]
    assert chosen(members, 0.7) is members[2] and chosen(members, 0.9) is members[3]
