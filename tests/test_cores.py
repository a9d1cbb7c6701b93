"""Cores at hand."""

import os
import subprocess
import sys

import pytest

from manyhands.cores import num_cores


def test_there_is_at_least_one_core():
    assert 1 <= num_cores() <= (os.cpu_count() or 1)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux pins processes to cores")
def test_a_pinned_process_counts_its_own_cores():
    program = (
        "import os; os.sched_setaffinity(0, [0]); from manyhands.cores import *; print(num_cores())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "1"
