"""What a process reports that ends without its main thread."""

import subprocess
import sys

import pytest

from manyhands.errors import Diverged, UserError
from manyhands.parallel.hang_report import report


@pytest.mark.parametrize("error", [UserError("too large\nhelp"), Diverged("too large\nhelp")])
def test_a_users_error_is_reported_once_with_its_rank(error, capsys):
    report(error, 3)
    assert capsys.readouterr().err == "manyhands: rank 3: too large\nmanyhands: help\n"
    error.is_common = True
    report(error, 3)
    assert capsys.readouterr().err == "manyhands: too large\nmanyhands: help\n"
    error.is_reported = True
    report(error, 3)
    assert capsys.readouterr().err == ""


def test_another_error_is_reported_with_its_traceback(capsys):
    try:
        raise ValueError("planted")
    except ValueError as error:
        report(error, 1)
    printed = capsys.readouterr().err
    assert "test_exits.py" in printed and "ValueError: planted" in printed


UNCAUGHT = """
import atexit
from manyhands.parallel.hang_report import report
error = ValueError("planted")
atexit.register(lambda: report(error, 1))
raise error
"""


@pytest.mark.new_interpreter
def test_a_traceback_that_python_printed_is_not_printed_again():
    done = subprocess.run(
        [sys.executable, "-c", UNCAUGHT], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.count("ValueError: planted") == 1


@pytest.mark.parametrize("close", ["pass", "sys.stdout.close()", "os.close(1)"])
def test_a_process_ends_whatever_became_of_its_output(close):
    program = "import os, sys\nfrom manyhands.parallel.hang_report import force_exit\nprint('x')\n"
    program += f"{close}\nforce_exit(7)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert done.returncode == 7
