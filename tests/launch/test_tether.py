"""A command that ends with the process that started it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from manyhands.launch.tether import STOPPED, end_with, with_parent_death_signal

DEADLINE_S = 60
LAUNCHER = """
import subprocess, sys, time
from manyhands.launch.tether import with_parent_death_signal
waiting = [sys.executable, "-c", "print(1, flush=True); input()"]
child = subprocess.Popen(with_parent_death_signal(waiting),
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
time.sleep(600)
"""

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has such a request")


def test_the_command_runs_with_its_arguments_and_its_code():
    command = with_parent_death_signal(
        [sys.executable, "-c", "import sys; sys.exit(int(sys.argv[1]))", "7"]
    )
    assert subprocess.run(command, check=False).returncode == 7


@linux
def test_the_command_ends_when_its_launcher_is_killed():
    launcher = subprocess.Popen([sys.executable, "-c", LAUNCHER], stdout=subprocess.PIPE)
    child = int(launcher.stdout.readline())
    launcher.kill()
    launcher.wait()
    launcher.stdout.close()
    deadline = time.monotonic() + DEADLINE_S
    while is_running(child):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return text.rpartition(")")[2].split()[0] != "Z"


@linux
def test_a_command_whose_launcher_is_gone_already_does_not_begin():
    command = with_parent_death_signal([sys.executable, "-c", "print('begun')"])
    command[command.index(str(os.getpid()))] = str(os.getpid() + 1)
    done = subprocess.run(command, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (STOPPED, b"")


@linux
def test_a_forked_process_can_ask_too():
    pid = os.fork()
    if pid == 0:
        end_with(os.getppid())
        os.kill(os.getpid(), signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
