"""Processes of other ranks."""

import subprocess
import sys
import time

import psutil

from manyhands.parallel.placement import has_exited, machine_identity


def test_a_process_is_gone_before_anybody_has_asked_for_its_exit_code():
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    seen = psutil.Process(process.pid)
    assert not has_exited(seen)
    process.kill()
    deadline = time.monotonic() + 10
    while not has_exited(seen):
        assert time.monotonic() < deadline
    process.wait()
    assert has_exited(seen)


def test_this_machine_is_itself():
    assert machine_identity() == machine_identity()
