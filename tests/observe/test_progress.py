"""Work that takes a while."""

import os
import pty
import subprocess
import sys
from contextlib import suppress

from manyhands.observe.console import progress_bar

SHOW = """
from manyhands.observe.console import progress_bar
with progress_bar("nothing to do"):
    pass
with progress_bar("counting") as on_progress:
    on_progress(1, 2)
    on_progress(2, 2)
"""


def test_it_is_silent_where_there_is_no_terminal(capsys):
    with progress_bar("working") as on_progress:
        on_progress(1, 2)
        on_progress(2, 2)
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""


def test_a_terminal_sees_what_is_done_and_nothing_of_what_never_began():
    terminal, other = pty.openpty()
    environ = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    subprocess.run([sys.executable, "-c", SHOW], stderr=other, env=environ, timeout=60, check=True)
    os.close(other)
    seen = everything_on(terminal)
    assert "counting" in seen and "2/2" in seen
    assert "nothing to do" not in seen


def everything_on(terminal):
    """What was printed on a terminal that nobody prints on any more."""
    printed = []
    # It is handed out piece by piece, and its end is an error.
    with suppress(OSError), os.fdopen(terminal, "rb", buffering=0) as pieces:
        while piece := pieces.read(4096):
            printed.append(piece)
    return b"".join(printed).decode()
