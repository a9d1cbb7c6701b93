"""Runners of tests that are forked, like the programs they start; see forked_python.py.

Every runner would import torch, and start a process that imports it too. Instead the process that
hands out tests has one such process, off which runners are forked. Each begins by forking another
off itself, before it has seen a test, which forks the programs that its tests start.
"""

import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import forked_python
from execnet.gateway_io import popen_bootstrapline

BEGINNING = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); "
BEGINNING += "import forked_runners; forked_runners.fork_server(); "

EXTRAS = ("peft", "transformers.models.smolvlm.modeling_smolvlm", "wandb.sdk.launch")
"""What takes seconds to import, for some programs and for all runners, which collect all tests."""

connection: socket.socket | None = None
"""To the server of this runner."""


class Popen(forked_python.Popen):
    """A process; one that execnet starts is forked too."""

    def _execute_child(self, args: Sequence[str], *others: Any) -> None:
        is_runner = args == [sys.executable, "-u", "-c", popen_bootstrapline]
        # A runner has no use for output that is not buffered: it writes to its pipe by itself.
        words = [args[0], "-c", BEGINNING + args[3]] if is_runner else args
        if is_runner and forked_python.server is not None:
            forked_python.server.others = EXTRAS
        super()._execute_child(words, *others)


def fork_server() -> None:
    """Have a server that knows no more than the process off which this runner was forked."""
    global connection
    connection, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        connection.close()
        # What the runner is told and what it answers is no business of its programs.
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, 0)
        os.dup2(nowhere, 1)
        try:
            forked_python.serve(its)
        finally:
            os._exit(0)
    its.close()


def install() -> None:
    """Fork programs from here on, and runners too."""
    forked_python.install_server()
    if "PYTEST_XDIST_WORKER" not in os.environ:
        subprocess.Popen = Popen  # type: ignore[misc]
    elif connection is not None:
        vars(forked_python.server)["_socket"] = connection
