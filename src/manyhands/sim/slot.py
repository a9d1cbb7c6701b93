"""Where episodes run: in a process of their own, which may crash or hang, or in this one."""

import multiprocessing
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.util import Finalize
from typing import Any, Protocol

from manyhands.errors import UserError
from manyhands.launch.helper_process import live_as_long_as_rank
from manyhands.launch.main_guard import refuse_unguarded_script
from manyhands.sim.build import modules_of
from manyhands.sim.episode import Command, Episode, EpisodeSetup, Segment

POLL_S = 0.5


@dataclass(frozen=True)
class Failure:
    """Why a command was not executed."""

    reason: str
    fault: UserError | None = None
    """The usage error, where it is one."""


class Slot(Protocol):
    """Runs one episode at a time."""

    def send(self, command: Command) -> None:
        """Start executing a command."""

    def result(self) -> Segment | Failure | None:
        """What the command led to, once it has been executed."""

    def close(self) -> None:
        """End."""


class LocalSlot:
    """Runs episodes in this process."""

    def __init__(self, setup: EpisodeSetup) -> None:
        self._setup = setup
        self._episode: Episode | None = None
        self._result: Segment | Failure | None = None

    def send(self, command: Command) -> None:
        """Execute a command."""
        try:
            self._episode = self._episode or Episode(self._setup)
            self._result = self._episode.run(command)
        # Simulators may raise anything, and one that does ends its episode alone.
        except Exception as error:
            self._episode = None
            self._result = failure_of(error)

    def result(self) -> Segment | Failure | None:
        """What the command led to."""
        result, self._result = self._result, None
        return result

    def close(self) -> None:
        """Nothing remains."""


class ProcessSlot:
    """Runs episodes in a process; a new one replaces a process that crashed or hangs."""

    def __init__(self, setup: EpisodeSetup, timeout_s: float) -> None:
        self._setup = setup
        self._timeout_s = timeout_s
        self._process: Any = None
        self._connection: Connection | None = None
        self._end: Finalize | None = None
        self._deadline = 0.0

    @property
    def connection(self) -> Connection | None:
        """Readable once there is a result."""
        return self._connection

    @property
    def is_overdue(self) -> bool:
        """Whether the command should have been executed by now."""
        return time.monotonic() > self._deadline

    def send(self, command: Command) -> None:
        """Start executing a command."""
        self._deadline = time.monotonic() + self._timeout_s
        if self._connection is None:
            self._start()
        assert self._connection is not None
        # A process that is dead is noticed when its result is read.
        with suppress(BrokenPipeError, ConnectionResetError):
            self._connection.send(command)

    def result(self) -> Segment | Failure | None:
        """What the command led to, once it has been executed."""
        assert self._connection is not None
        try:
            if self._connection.poll():
                result: Segment | Failure = self._connection.recv()
                return result
        except (EOFError, OSError):
            self._process.join()
            code = self._process.exitcode
            self.close()
            return Failure(f"the environment's process died with exit code {code}")
        if self.is_overdue:
            self.close()
            return Failure(
                f"the environment did not answer within {self._timeout_s:g} s (--eval.timeout_s)"
            )
        return None

    def close(self) -> None:
        """End the process."""
        if self._end is not None:
            self._end()
        self._connection = self._end = None

    def _start(self) -> None:
        refuse_unguarded_script()
        context: Any = multiprocessing.get_context("forkserver")
        # The first user of the server decides what it imports once for all processes.
        context.set_forkserver_preload([__name__, *modules_of(self._setup.config)])
        self._connection, other = context.Pipe()
        arguments = (other, self._setup)
        self._process = context.Process(target=serve_episodes, args=arguments, daemon=True)
        self._process.start()
        other.close()
        # Also when the program ends: multiprocessing would wait for a process that heeds no signal.
        parts = (self._connection, self._process)
        self._end = Finalize(self, end_process, parts, exitpriority=10)


def end_process(connection: Connection, process: Any) -> None:
    """End the process of an environment, whatever it does."""
    connection.close()
    process.kill()
    process.join()


def serve_episodes(connection: Connection, setup: EpisodeSetup) -> None:
    """Execute commands until the other side closes, or is gone."""
    # A job that is stopped would count episodes whose environments hear of it first as crashes.
    live_as_long_as_rank()
    slot = LocalSlot(setup)
    with suppress(EOFError, OSError):
        while True:
            slot.send(connection.recv())
            connection.send(slot.result())


def failure_of(error: Exception) -> Failure:
    """An error of an environment in words."""
    if isinstance(error, UserError):
        return Failure(str(error), error)
    last = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{last.filename}, line {last.lineno}"
    return Failure(f"the environment raised {type(error).__name__}: {error} ({where})")


def answer(slot: Slot, command: Command) -> Segment:
    """What a command leads to; a usage error if its environment fails."""
    slot.send(command)
    while (found := slot.result()) is None:
        finished_slots([slot], POLL_S)
    if isinstance(found, Failure):
        raise found.fault or UserError(f"no episode could be run: {found.reason}")
    return found


def finished_slots(slots: Sequence[Slot], timeout_s: float) -> list[Slot]:
    """Wait until a slot has a result, or for a while; the slots that have one."""
    processes = {slot.connection: slot for slot in slots if isinstance(slot, ProcessSlot)}
    if len(processes) < len(slots):
        return [*slots]  # In this process a command has been executed once it is sent.
    ready = {*wait([each for each in processes if each is not None], timeout_s)}
    return [slot for each, slot in processes.items() if each in ready or slot.is_overdue]
