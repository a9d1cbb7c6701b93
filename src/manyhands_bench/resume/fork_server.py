"""Runs in real processes that start at once: forked off one that has everything imported.

The process that forks is started once, reads requests from its input and answers on its output,
one JSON value a line. What it forks has the shape of what `manyhands train` starts: a process by
itself, or a launcher that watches over one process per rank.
"""

import gc
import json
import math
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from manyhands.config.launch.launcher import LISTENING
from manyhands.launch.outcome import LOST, outcome_of
from manyhands.launch.tether import end_with
from manyhands.launch.workers import LOOPBACK, listen, report_deaths

LAST_WORDS_S = 5.0
"""How long ranks may take to leave once one of them has failed."""
POLL_S = 0.02

Train = Callable[[Sequence[str]], int]
"""What a process does with flags of `manyhands train`; its exit code."""


class ForkServer:
    """The process that forks others, seen from the one that asks it to."""

    def __init__(self, command: Sequence[str], changes: Mapping[str, str]) -> None:
        """Run a command that serves; `changes` are to the environment of all that it forks."""
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | changes,
        )
        self.pid = self._process.pid

    def __enter__(self) -> "ForkServer":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def start(self, arguments: Sequence[str], num_ranks: int, log: Path) -> int:
        """Begin a run that prints to a file; the process that ends when all of it has."""
        request = {"arguments": [*arguments], "num_ranks": num_ranks, "log": str(log)}
        return self._ask(request)

    def wait(self, pid: int) -> int:
        """Wait for a process that was started; its exit code, negative if a signal ended it."""
        return self._ask({"pid": pid})

    def _ask(self, request: dict[str, Any]) -> int:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return int(json.loads(self._process.stdout.readline()))


def start_program(
    command: Sequence[str], log: Path, changes: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """Start a program that prints to a file; `changes` are to its environment."""
    with log.open("ab") as output:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=os.environ | changes,
            start_new_session=True,
        )


def serve(train: Train) -> None:
    """Fork what is asked for until nobody asks any more."""
    # Each run collects garbage at its end: not among all that was imported before it began.
    gc.freeze()
    for line in sys.stdin:
        request = json.loads(line)
        if "pid" in request:
            _answer(os.waitstatus_to_exitcode(os.waitpid(request["pid"], 0)[1]))
            continue
        pid = os.fork()
        if pid == 0:
            settle(Path(request["log"]))
            # By an exception, so that this process ends in order, as a program does.
            sys.exit(run_ranks(train, request["arguments"], request["num_ranks"]))
        _answer(pid)


def _answer(number: int) -> None:
    print(json.dumps(number), flush=True)


def settle(log: Path) -> None:
    """Make a forked process one of its own: a new session, no input, a file to print to."""
    os.setsid()
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for target, source in enumerate((os.open(os.devnull, os.O_RDONLY), output, output)):
        os.dup2(source, target)


def run_ranks(train: Train, arguments: Sequence[str], num_ranks: int) -> int:
    """Train in this process, or be the launcher of several; the exit code of the whole."""
    if num_ranks == 1:
        return train(arguments)
    listener = listen(LOOPBACK, None, "nobody")
    launcher, ranks = os.getpid(), list[int]()
    for rank in range(num_ranks):
        pid = os.fork()
        if pid == 0:
            if sys.platform == "linux":
                end_with(launcher)
            os.environ.update(rank_variables(rank, num_ranks, listener))
            sys.exit(train(arguments))
        ranks.append(pid)
    listener.close()
    return watch(ranks)


def rank_variables(rank: int, num_ranks: int, listener: socket.socket) -> dict[str, str]:
    """What a launcher says to a rank; the main one keeps the socket where all meet."""
    port = listener.getsockname()[1]
    place = {
        "RANK": rank,
        "LOCAL_RANK": rank,
        "WORLD_SIZE": num_ranks,
        "LOCAL_WORLD_SIZE": num_ranks,
        "MASTER_ADDR": LOOPBACK,
        "MASTER_PORT": port,
        LISTENING: listener.detach() if rank == 0 else 0,
    }
    listener.close()
    return {name: str(value) for name, value in place.items()}


def watch(ranks: Sequence[int]) -> int:
    """Wait for the processes of all ranks; those that outlive a failure for too long are ended."""
    codes: dict[int, int] = {}
    deadline = math.inf
    while len(codes) < len(ranks):
        time.sleep(POLL_S)
        left = [pid for pid in ranks if pid not in codes]
        codes |= {pid: code for pid in left if (code := code_of(pid)) is not None}
        if any(codes.values()):
            deadline = min(deadline, time.monotonic() + LAST_WORDS_S)
        if time.monotonic() > deadline:
            # Children that nobody has waited for yet are still there to be signaled.
            for pid in set(left) - codes.keys():
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                codes[pid] = LOST
    return report_deaths(outcome_of([codes[pid] for pid in ranks])).code


def code_of(pid: int) -> int | None:
    """The exit code of a child that has ended."""
    done, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if done else None
