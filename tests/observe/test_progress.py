"""Work that takes a while."""

import os
import subprocess
import sys

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


def test_a_terminal_sees_what_is_done_and_nothing_of_what_never_began(terminal_of):
    environ = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    show = [sys.executable, "-c", SHOW]
    with terminal_of(80) as terminal:
        subprocess.run(show, stderr=terminal.file, env=environ, timeout=60, check=True)
    assert "counting" in terminal.text and "2/2" in terminal.text
    assert "nothing to do" not in terminal.text
