"""Memory that processes hold."""

import subprocess
import sys

from manyhands_bench.loader.rates import resident_bytes


def test_processes_that_were_started_count():
    before = resident_bytes()
    code = "block = b'x' * (200 << 20); print('ready', flush=True); input()"
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None and child.stdout.readline()
        grown = resident_bytes() - before
        child.communicate(b"\n", timeout=20)
    assert grown > 190 << 20
