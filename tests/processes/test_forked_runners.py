"""Runners of tests, forked."""

import os
import subprocess
import sys
from pathlib import Path

import forked_runners
import pytest

RUNNER = f"""
import os, subprocess
{forked_runners.BEGINNING}
import forked_python
forked_runners.install()
sys.known_to = "the runner"
program = "import os, sys; print(os.getppid(), hasattr(sys, 'known_to'), 'torch' in sys.modules)"
done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
print(os.getpid(), *done.stdout.split(), done.returncode)
"""


def test_programs_of_a_runner_are_its_children_and_know_nothing_of_it():
    environ = os.environ | {"PYTEST_XDIST_WORKER": "gw0"}
    folder = Path(__file__).parent
    command = [sys.executable, "-c", RUNNER]
    done = subprocess.run(command, capture_output=True, text=True, env=environ, cwd=folder)
    own, parent, is_known, has_torch, code = done.stdout.split() or pytest.fail(done.stderr)
    assert (parent, is_known, has_torch, code) == (own, "False", "True", "0"), done.stderr


def is_forking() -> bool:
    return os.environ.get("MANYHANDS_FORK_TESTS") == "1" and "PYTEST_XDIST_WORKER" in os.environ


@pytest.mark.skipif(not is_forking(), reason="there are no runners that could be forked")
def test_this_runner_is_forked():
    assert forked_runners.connection is not None
