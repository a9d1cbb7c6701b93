"""Jobs done by several processes; one that dies or hangs costs its own job and no other."""

import signal
import time
import traceback
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from manyhands.data.loading.forkserver import FORKSERVER, start_context
from manyhands.errors import EnvironmentFault

_START_S = 3.0  # About how long processes take to start
_POLL_S = 1.0
_EXIT_DELAY_S = 20.0  # How long a crashed process may take to end, as when it writes a core file
_PATIENCE_S = 120.0
_TIMEOUT_FACTOR = 50  # How many times longer than expected a job may take, on top of the time above

_READY = "ready"


Result = TypeVar("Result")
Returned = TypeVar("Returned", covariant=True)


class PoolJob(Protocol[Returned]):
    """Independent work that can be sent to a process."""

    @property
    def num_frames(self) -> int:
        """Frames it is about."""

    @property
    def cost_s(self) -> float:
        """Estimated time."""

    def run(self) -> Returned:
        """Do it."""

    def lost(self, reason: str) -> Returned:
        """The result if it killed its process."""

    def parts(self) -> "Sequence[PoolJob[Returned]]":
        """Smaller jobs that do the same; none when it is as small as can be."""


class _WorkerLost(NamedTuple):
    reason: str


class _Crash(NamedTuple):
    """The traceback of an error that is no fault of the dataset."""

    text: str


def run_jobs(
    jobs: Sequence[PoolJob[Result]], num_workers: int
) -> Iterator[tuple[PoolJob[Result], Result]]:
    """Every job with its result, in no particular order; little work is done in this process."""
    num_processes = min(num_workers, len(jobs))
    saved_s = sum(job.cost_s for job in jobs) * (1 - 1 / max(num_processes, 1))
    if saved_s < _START_S:
        return ((job, job.run()) for job in jobs)
    return run_in_processes(jobs, num_processes)


def run_in_processes(
    jobs: Sequence[PoolJob[Result]], num_processes: int, patience_s: float = _PATIENCE_S
) -> Iterator[tuple[PoolJob[Result], Result]]:
    """Every job with its result; those that kill a process are split to find the cause."""
    workers: list[_Worker[Result]] = [_Worker(patience_s) for _ in range(num_processes)]
    try:
        yield from _shared_out(deque(jobs), workers)
    finally:
        for worker in workers:
            worker.end()


def _shared_out(
    waiting: deque[PoolJob[Result]], workers: "list[_Worker[Result]]"
) -> Iterator[tuple[PoolJob[Result], Result]]:
    while waiting or any(worker.is_busy for worker in workers):
        for worker in workers:
            if waiting and not worker.is_busy:
                worker.give(waiting.popleft())
        busy = [worker for worker in workers if worker.is_busy]
        wait([worker.connection for worker in busy], _POLL_S)
        for job, answer in filter(None, (worker.answer() for worker in busy)):
            parts = job.parts() if isinstance(answer, _WorkerLost) else []
            waiting.extend(parts)
            if not parts:
                yield job, job.lost(answer.reason) if isinstance(answer, _WorkerLost) else answer


class _Worker(Generic[Result]):
    """A process that does one job at a time, and is replaced when it is lost."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._job: PoolJob[Result] | None = None
        self._deadline = 0.0
        self._start()

    @property
    def is_busy(self) -> bool:
        return self._job is not None

    def give(self, job: PoolJob[Result]) -> None:
        self._job = job
        self._deadline = time.monotonic() + self._allowance_s(job)
        # If it has died already, `answer` reports that.
        with suppress(ConnectionError):
            self.connection.send(job)

    def answer(self) -> tuple[PoolJob[Result], Result | _WorkerLost] | None:
        """The job with its result, or with what became of the process; None while it is busy."""
        assert self._job is not None
        answer = self._received() if self.connection.poll() else self._overdue()
        if answer == _READY:
            self._is_ready = True
            self._deadline = time.monotonic() + self._allowance_s(self._job)
        if answer in (None, _READY):
            return None
        job, self._job = self._job, None
        if isinstance(answer, _Crash):
            raise RuntimeError(f"a dataset check process failed:\n{answer.text}")
        return job, answer

    def end(self) -> None:
        self._process.kill()
        self._process.join()
        self.connection.close()

    def _allowance_s(self, job: PoolJob[Result]) -> float:
        """How long a job may take; starting a process may take its time, too."""
        patience_s = self._patience_s if self._is_ready else max(self._patience_s, _PATIENCE_S)
        return patience_s + _TIMEOUT_FACTOR * job.cost_s

    def _overdue(self) -> _WorkerLost | None:
        if time.monotonic() < self._deadline:
            return None
        self._process.kill()
        self._replace()
        return _WorkerLost("the check timed out")

    def _received(self) -> Any:
        try:
            return self.connection.recv()
        except (EOFError, ConnectionError):
            code = self._replace()
        if code >= 0:
            raise EnvironmentFault(
                f"cannot start the check processes (exit code {code}). Check in one process: "
                "`manyhands doctor --num_workers=0`"
            )
        name = signal.Signals(-code).name
        hint = ", probably out of memory" if -code == signal.SIGKILL else ""
        return _WorkerLost(f"the check process died with {name}{hint}")

    def _start(self) -> None:
        context = start_context(FORKSERVER)
        here, there = context.Pipe()
        self._is_ready = False
        self.connection: Connection[Any, Any] = here
        self._process: BaseProcess = context.Process(target=_serve, args=(there,), daemon=True)
        self._process.start()
        there.close()

    def _replace(self) -> int:
        """Start another process; returns how the old one ended."""
        self._process.join(timeout=_EXIT_DELAY_S)
        self._process.kill()
        self._process.join()
        code = self._process.exitcode
        self.connection.close()
        self._start()
        assert code is not None
        return code


def _serve(connection: "Connection[Any, Any]") -> None:
    # The parent process ends this one; Ctrl+C in the terminal reaches both.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        connection.send(_READY)
        while True:
            connection.send(connection.recv().run())
    except (EOFError, ConnectionError):
        return
    except BaseException:
        connection.send(_Crash(traceback.format_exc()))
        raise
