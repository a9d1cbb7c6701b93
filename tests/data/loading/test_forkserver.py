"""The process that others are forked off."""

import subprocess
import sys

import pytest

STARTED_FIRST = """
import psutil, sys
from manyhands.data.loading.forkserver import FORKSERVER, PRELOADED, start_server, start_context

given = "manyhands.sim.tray.environment"
start_server(given)
assert any("forkserver" in " ".join(each.cmdline()) for each in psutil.Process().children())
assert "torch" not in sys.modules
with start_context(FORKSERVER).Pool(1) as pool:
    imported = pool.apply(eval, ("[*__import__('sys').modules]",))
needed = {*PRELOADED, "manyhands.data.checking.worker_pool", "manyhands.data.dataset", "torch"}
needed.add(given)
print(*sorted(needed.difference(imported)))
"""


@pytest.mark.new_interpreter
@pytest.mark.process
def test_a_server_that_starts_before_all_else_has_everything_imported():
    done = subprocess.run(
        [sys.executable, "-c", STARTED_FIRST], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []
