"""Starts and kills the processes of a run, and waits until none is left."""

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from manyhands.parallel.placement import has_exited
from manyhands_bench.resume.fork_server import ForkServer, start_program

PR_SET_CHILD_SUBREAPER, PR_GET_CHILD_SUBREAPER = 36, 37
POLL_S = 0.05
RUN_S = 900.0
"""Timeout of a run."""
LEAVE_S = 120.0
"""How long processes may outlive the one that was started or killed."""
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
"""The same number of threads in all runs, for identical sums."""
LAUNCHER, RANK, LOADER = "launcher", "rank", "loader"


class Stuck(Exception):
    """Processes that do not end."""


@dataclass(frozen=True)
class Member:
    """A process of a run."""

    process: psutil.Process
    role: str
    """The role: launcher, rank with its number, or loader."""

    def kill(self) -> None:
        """Send SIGKILL."""
        with suppress(psutil.NoSuchProcess):
            self.process.send_signal(signal.SIGKILL)


class Started:
    """A started run."""

    def __init__(self, pid: int, num_ranks: int, wait: Callable[[], int]) -> None:
        self._num_ranks = num_ranks
        self._wait = wait
        self._root = psutil.Process(pid)
        self._since = time.monotonic()

    @property
    def age_s(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._since

    def is_over(self) -> bool:
        """Whether the started process has ended; raises after a timeout."""
        if self.age_s > RUN_S:
            raise Stuck(f"still running after {RUN_S:.0f} s")
        return has_exited(self._root)

    def members(self) -> list[Member]:
        """Its current processes: launcher, ranks in order, loaders."""
        if self._num_ranks == 1:
            ranks, members = [self._root], []
        else:
            ranks, members = children_of(self._root), [Member(self._root, LAUNCHER)]
        members += [Member(rank, f"{RANK} {number}") for number, rank in enumerate(ranks)]
        loaders = [each for rank in ranks for each in children_of(rank, recursive=True)]
        return members + [Member(each, LOADER) for each in loaders]

    def wait(self) -> int:
        """Wait for the end; returns the exit code, negative after a signal."""
        while not self.is_over():
            time.sleep(POLL_S)
        return self._wait()


class Starter:
    """Starts runs, by the program or forked, and tracks their processes."""

    def __init__(self, nursery: ForkServer, home: Path) -> None:
        self._nursery = nursery
        self._changes = environment(home)
        self._others = {child.pid for child in psutil.Process().children(recursive=True)}
        self._program = 0

    def fork(self, arguments: Sequence[str], num_ranks: int, log: Path) -> Started:
        """Start a run in forked processes with all imports done."""
        pid = self._nursery.start(arguments, num_ranks, log)
        return Started(pid, num_ranks, lambda: self._nursery.wait(pid))

    def launch(self, arguments: Sequence[str], num_ranks: int, log: Path) -> Started:
        """Start a run as users do."""
        command = [sys.executable, "-m", "manyhands", "train", *arguments]
        program = start_program(command, log, self._changes)
        self._program = program.pid
        return Started(program.pid, num_ranks, program.wait)

    def left(self) -> list[psutil.Process]:
        """All remaining processes of runs."""
        everything = psutil.Process().children(recursive=True)
        children = [child for child in everything if child.pid not in self._others]
        for child in children:
            if child.pid != self._program and _is_own_zombie(child):
                os.waitpid(child.pid, os.WNOHANG)
        return [child for child in children if is_alive(child)]

    def clear(self, at_once: bool = False) -> list[str]:
        """Wait until no process is left; kill and report those that remain."""
        deadline = time.monotonic() + (0 if at_once else LEAVE_S)
        while self.left() and time.monotonic() < deadline:
            time.sleep(POLL_S)
        stayed = self.left()
        messages = [f"process {each.pid} is still running: {_command_of(each)}" for each in stayed]
        for each in stayed:
            with suppress(psutil.NoSuchProcess):
                each.kill()
        while any(is_alive(each) for each in stayed):
            time.sleep(POLL_S)
        return messages


def chosen(members: Sequence[Member], share: float) -> Member:
    """The member at a fraction of all roles, and of all members of that role."""
    roles = list(dict.fromkeys(member.role for member in members))
    place = share * len(roles)
    alike = [member for member in members if member.role == roles[int(place)]]
    return alike[int((place - int(place)) * len(alike))]


@contextmanager
def starter(home: Path) -> Iterator[Starter]:
    """Start runs with a common home folder; processes never outlive the block."""
    nursing = [sys.executable, "-m", "manyhands", "bench", "nursery"]
    with adopting(), ForkServer(nursing, environment(home)) as nursery:
        starting = Starter(nursery, home)
        try:
            yield starting
        finally:
            starting.clear(at_once=True)


def environment(home: Path) -> dict[str, str]:
    """Environment variables of runs."""
    return {**ENVIRONMENT, "MANYHANDS_HOME": str(home)}


@contextmanager
def adopting() -> Iterator[None]:
    """Become the subreaper of orphaned processes, so that none is lost."""
    if sys.platform != "linux":
        yield
        return
    library, before = ctypes.CDLL(None), ctypes.c_int()
    library.prctl(PR_GET_CHILD_SUBREAPER, ctypes.byref(before))
    library.prctl(PR_SET_CHILD_SUBREAPER, 1)
    try:
        yield
    finally:
        library.prctl(PR_SET_CHILD_SUBREAPER, before.value)


def children_of(process: psutil.Process, recursive: bool = False) -> list[psutil.Process]:
    """The children of a process, oldest first."""
    try:
        found = process.children(recursive=recursive)
    except psutil.NoSuchProcess:
        return []
    return sorted(filter(is_alive, found), key=lambda child: child.pid)


def is_alive(process: psutil.Process) -> bool:
    """Whether a process is alive."""
    return not has_exited(process)


def _is_own_zombie(process: psutil.Process) -> bool:
    try:
        return process.ppid() == os.getpid() and process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _command_of(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())[:200]
    except psutil.Error:
        return "already ended"
