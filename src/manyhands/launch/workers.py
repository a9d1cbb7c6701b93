"""Starts one process per rank on this machine and monitors them until all have ended.

If a rank fails, the others are stopped; its exit code is returned.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from types import FrameType

from manyhands.config.launch.launcher import LISTENING
from manyhands.cores import num_cores
from manyhands.errors import EnvironmentFault
from manyhands.launch.outcome import (
    INTERRUPTED,
    SPOKEN,
    STOPPED,
    Outcome,
    failed_ranks,
    is_explained,
    outcome_of,
)
from manyhands.launch.tether import with_parent_death_signal
from manyhands.stop import SIGNALS

POLL_S = 0.05
GRACE_S = 5.0
EXIT_MESSAGE_S = 5.0
"""How long the others may take to end once a rank has left, by itself or dragged down by them."""
STOP_TIMEOUT_S = 120.0  # How long workers may take to save and leave once asked to stop.
Request = tuple[int, float]  # A signal that asked to stop, and when.
LOOPBACK = "127.0.0.1"

Workers = list[subprocess.Popen[bytes]]


@dataclass(frozen=True)
class Machines:
    """All machines of a run, the rank of this one, and the rendezvous address."""

    port: int
    address: str = LOOPBACK
    num_machines: int = 1
    rank: int = 0
    listener: socket.socket | None = None
    """The socket of that port for the main rank to inherit, so that nobody else can take it."""


def run_workers(
    num_processes: int,
    command: Sequence[str],
    machines: Machines | None = None,
    changes: Mapping[str, str] | None = None,
) -> Outcome:
    """Run a command once per local rank until all have ended."""
    machines = machines or Machines(free_port())
    environ = os.environ | (changes or {})
    places = [_place(rank, num_processes, machines) for rank in range(num_processes)]
    workers: Workers = []
    with _recorded_signals() as requests:
        try:
            for place in places:
                workers.append(_start(command, environ | place, machines.listener))
            if machines.listener is not None:
                machines.listener.close()
            return _watch(workers, requests)
        finally:
            _end(workers)


def free_port() -> int:
    """A TCP port that is free at the moment."""
    with socket.socket() as listener:
        listener.bind((LOOPBACK, 0))
        port: int = listener.getsockname()[1]
        return port


def listen(address: str, port: int | None, named_by: str) -> socket.socket:
    """Listen on a port, any if none is given; raises with its name if it is in use."""
    try:
        return socket.create_server((address, port or 0))
    except OSError as error:
        raise EnvironmentFault(
            f"port {port}, set by {named_by}, cannot be used: {error.strerror}. Choose another, "
            "or remove it if all processes run on one machine"
        ) from error


def _place(local_rank: int, num_processes: int, machines: Machines) -> dict[str, str]:
    rank = machines.rank * num_processes + local_rank
    place = {
        "RANK": rank,
        "LOCAL_RANK": local_rank,
        "WORLD_SIZE": num_processes * machines.num_machines,
        "LOCAL_WORLD_SIZE": num_processes,
        "MASTER_ADDR": machines.address,
        "MASTER_PORT": machines.port,
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS") or threads_per_worker(num_processes),
    }
    if machines.listener is not None or machines.rank > 0:
        inherited = machines.listener is not None and rank == 0
        place[LISTENING] = machines.listener.fileno() if machines.listener and inherited else 0
    return {name: str(value) for name, value in place.items()}


def _start(
    command: Sequence[str], environ: Mapping[str, str], listener: socket.socket | None
) -> subprocess.Popen[bytes]:
    # A separate session: the terminal's Ctrl-C reaches a worker once, through this process.
    return subprocess.Popen(
        with_parent_death_signal([*command]),
        env=environ,
        start_new_session=True,
        pass_fds=[listener.fileno()] if listener is not None and environ["RANK"] == "0" else [],
    )


def threads_per_worker(num_processes: int) -> int:
    """Compute threads per worker that do not oversubscribe the cores."""
    return max(1, num_cores() // num_processes)


def _watch(workers: Workers, requests: list[Request]) -> Outcome:
    """Wait until every worker has ended, one has failed, or a stop request times out."""
    first_end: float | None = None
    num_forwarded = 0
    while True:
        num_forwarded += _forward(requests[num_forwarded:], workers)
        codes = [worker.poll() for worker in workers]
        if any(codes) and first_end is None:
            first_end = time.monotonic()
        is_time = first_end is not None and time.monotonic() - first_end > EXIT_MESSAGE_S
        if None not in codes or is_explained(codes) or (is_time and failed_ranks(codes)):
            return report_deaths(replace(outcome_of(codes), stop_requested=bool(requests)))
        if is_time and not requests:
            # One rank stopped on request; ranks before the rendezvous would wait for it.
            requests.append((signal.SIGTERM, time.monotonic()))
        interrupts = [number for number, _ in requests if number == signal.SIGINT]
        is_overdue = bool(requests) and time.monotonic() - requests[0][1] > STOP_TIMEOUT_S
        if is_overdue or len(interrupts) > 1:
            return Outcome(INTERRUPTED, stop_requested=True)
        time.sleep(POLL_S)


def report_deaths(outcome: Outcome) -> Outcome:
    """Print the deaths of ranks that could not report them."""
    for death in outcome.deaths:
        if death.code not in SPOKEN:
            print(f"manyhands: rank {death.rank} {death.how}", file=sys.stderr, flush=True)
    return outcome


def _end(workers: Workers) -> None:
    for worker in workers:
        if worker.poll() is None:
            worker.terminate()
    deadline = time.monotonic() + GRACE_S
    for worker in workers:
        try:
            worker.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()
        if worker.returncode not in (0, STOPPED):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(worker.pid, signal.SIGKILL)


@contextmanager
def _recorded_signals() -> Iterator[list[Request]]:
    requests: list[Request] = []

    def note(number: int, _frame: FrameType | None) -> None:
        requests.append((number, time.monotonic()))

    before = {number: signal.signal(number, note) for number in SIGNALS}
    try:
        yield requests
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _forward(requests: list[Request], workers: Workers) -> int:
    for number, _ in requests:
        for worker in workers:
            worker.send_signal(number)
    return len(requests)
