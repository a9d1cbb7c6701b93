"""One process per rank on this machine, watched until all have ended.

The first rank to fail ends the others; its exit code is the answer.
"""

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from manyhands.cores import num_cores

POLL_S = 0.05
GRACE_S = 5.0
ANSWER_S = 120.0
"""How long workers may take to save and leave once asked to stop."""
STOPPED = 75
Request = tuple[int, float]
"""A signal that asked to stop, and when."""
FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP)
PR_SET_PDEATHSIG = 1


def run_workers(num_processes: int, command: Sequence[str]) -> int:
    """Run a command once per rank; return the exit code of the whole."""
    port = free_port()
    workers = [_start(rank, num_processes, port, command) for rank in range(num_processes)]
    with _forwarding_signals(workers) as requests:
        try:
            return _watch(workers, requests)
        finally:
            _end(workers)


def free_port() -> int:
    """A TCP port nobody listens on at the moment."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def _start(
    rank: int, num_processes: int, port: int, command: Sequence[str]
) -> subprocess.Popen[bytes]:
    place = {
        "RANK": rank,
        "LOCAL_RANK": rank,
        "WORLD_SIZE": num_processes,
        "LOCAL_WORLD_SIZE": num_processes,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS") or threads_per_worker(num_processes),
    }
    environ = os.environ | {name: str(value) for name, value in place.items()}
    # A session of its own: the terminal's Ctrl-C reaches a worker once, through us.
    return subprocess.Popen(
        command, env=environ, start_new_session=True, preexec_fn=_end_with_the_parent
    )


def _end_with_the_parent() -> None:
    """Ask the kernel to stop this worker if the process that watches it is killed."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def threads_per_worker(num_processes: int) -> int:
    """Compute threads for each worker so that together they do not crowd the cores."""
    return max(1, num_cores() // num_processes)


def _watch(workers: list[subprocess.Popen[bytes]], requests: list[Request]) -> int:
    """Wait until every worker has ended, one has failed, or they leave a request unanswered."""
    while True:
        codes = [worker.poll() for worker in workers]
        failed = {rank: code for rank, code in enumerate(codes) if code not in (None, 0, STOPPED)}
        if failed:
            return _told(failed)
        if None not in codes:
            return max(code or 0 for code in codes)
        if _must_end(requests):
            return 128 + signal.SIGINT
        time.sleep(POLL_S)


def _must_end(requests: list[Request]) -> bool:
    """Whether workers were asked in vain, or Ctrl-C was pressed again."""
    interrupts = [number for number, _ in requests if number == signal.SIGINT]
    return len(interrupts) > 1 or (bool(requests) and time.monotonic() - requests[0][1] > ANSWER_S)


def _told(failed: dict[int, int]) -> int:
    """The exit code that explains most; a rank that could not speak for itself is spoken for."""
    for rank, code in failed.items():
        if code < 0:
            name = signal.Signals(-code).name
            print(f"manyhands: rank {rank} was ended by {name}", file=sys.stderr)
    # A rank that fails by itself says why; those it drags down leave with 1.
    code = max(failed.values(), key=lambda code: (code > 1, code < 0))
    return 128 - code if code < 0 else code


def _end(workers: list[subprocess.Popen[bytes]]) -> None:
    """Ask the workers that are left to stop, then make them."""
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


@contextmanager
def _forwarding_signals(workers: list[subprocess.Popen[bytes]]) -> Iterator[list[Request]]:
    """Hand requests to stop on to every worker and note when they came."""
    requests: list[Request] = []

    def forward(number: int, _frame: FrameType | None) -> None:
        requests.append((number, time.monotonic()))
        for worker in workers:
            if worker.poll() is None:
                worker.send_signal(number)

    before = {number: signal.signal(number, forward) for number in FORWARDED}
    try:
        yield requests
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
