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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType

from manyhands.config.launcher import LISTENING
from manyhands.cores import num_cores
from manyhands.errors import EnvironmentFault, RankLost

POLL_S = 0.05
GRACE_S = 5.0
LAST_WORDS_S = 5.0
"""How long the rank that failed may take to end after those that it dragged down."""
ANSWER_S = 120.0
"""How long workers may take to save and leave once asked to stop."""
STOPPED = 75
LOST = RankLost.exit_code
Request = tuple[int, float]
"""A signal that asked to stop, and when."""
FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP)
PR_SET_PDEATHSIG = 1
LOOPBACK = "127.0.0.1"

Workers = list[subprocess.Popen[bytes]]


@dataclass(frozen=True)
class Machines:
    """All machines of a run, seen from one of them, and where their processes meet."""

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
    gpus: str | None = None,
) -> int:
    """Run a command once per rank of this machine; return the exit code of the whole."""
    machines = machines or Machines(free_port())
    places = [_place(rank, num_processes, machines, gpus) for rank in range(num_processes)]
    workers = [_start(command, place, machines.listener) for place in places]
    if machines.listener is not None:
        machines.listener.close()
    with _forwarding_signals(workers) as requests:
        try:
            return _watch(workers, requests)
        finally:
            _end(workers)


def free_port() -> int:
    """A TCP port nobody listens on at the moment."""
    with socket.socket() as listener:
        listener.bind((LOOPBACK, 0))
        port: int = listener.getsockname()[1]
        return port


def listen(address: str, port: int | None, named_by: str) -> socket.socket:
    """Take a port, any where none is given; one that is taken already is told with its name."""
    try:
        return socket.create_server((address, port or 0))
    except OSError as error:
        raise EnvironmentFault(
            f"port {port}, set by {named_by}, cannot be used: {error.strerror}; "
            "choose another, or leave it out where all processes are on one machine"
        ) from error


def _place(
    local_rank: int, num_processes: int, machines: Machines, gpus: str | None
) -> dict[str, str]:
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
    if gpus is not None:
        place["CUDA_VISIBLE_DEVICES"] = gpus
    return {name: str(value) for name, value in place.items()}


def _start(
    command: Sequence[str], place: dict[str, str], listener: socket.socket | None
) -> subprocess.Popen[bytes]:
    # A session of its own: the terminal's Ctrl-C reaches a worker once, through us.
    return subprocess.Popen(
        command,
        env=os.environ | place,
        start_new_session=True,
        preexec_fn=_end_with_the_parent,
        pass_fds=[listener.fileno()] if listener is not None and place["RANK"] == "0" else [],
    )


def _end_with_the_parent() -> None:
    """Ask the kernel to stop this worker if the process that watches it is killed."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def threads_per_worker(num_processes: int) -> int:
    """Compute threads for each worker so that together they do not crowd the cores."""
    return max(1, num_cores() // num_processes)


def _watch(workers: Workers, requests: list[Request]) -> int:
    """Wait until every worker has ended, one has failed, or they leave a request unanswered."""
    lost_since: float | None = None
    while True:
        codes = [worker.poll() for worker in workers]
        failed = {rank: code for rank, code in enumerate(codes) if code not in (None, 0, STOPPED)}
        if failed and lost_since is None:
            lost_since = time.monotonic()
        if failed and (_explains(failed) or time.monotonic() - (lost_since or 0) > LAST_WORDS_S):
            return _told(failed, codes)
        if None not in codes:
            return _told(failed, codes) if failed else max(code or 0 for code in codes)
        if _must_end(requests):
            return 128 + signal.SIGINT
        time.sleep(POLL_S)


def _must_end(requests: list[Request]) -> bool:
    """Whether workers were asked in vain, or Ctrl-C was pressed again."""
    interrupts = [number for number, _ in requests if number == signal.SIGINT]
    return len(interrupts) > 1 or (bool(requests) and time.monotonic() - requests[0][1] > ANSWER_S)


def _explains(failed: Mapping[int, int | None]) -> bool:
    """Whether one of these ranks failed by itself, and not because another did."""
    return any(code != LOST for code in failed.values())


def _told(failed: Mapping[int, int | None], codes: list[int | None]) -> int:
    """The exit code that explains most; a rank that could not speak for itself is spoken for."""
    own = {rank: code for rank, code in failed.items() if code not in (None, LOST)}
    early = {rank: code for rank, code in enumerate(codes) if code in (0, STOPPED)}
    for rank, code in (own or early).items():
        words = _words(code or 0)
        if words:
            print(f"manyhands: rank {rank} {words}", file=sys.stderr)
    # A rank that fails by itself says why; those it drags down leave with 1.
    codes_told = [code for code in own.values() if code is not None] or [1]
    code = max(codes_told, key=lambda code: (code > 1, code < 0))
    return 128 - code if code < 0 else code


def _words(code: int) -> str:
    """What to say of a rank that ended in a certain way; nothing where its own words suffice."""
    if code == -signal.SIGKILL:
        return "was ended by SIGKILL; if nobody did that, the machine ran out of memory"
    if code < 0:
        return f"was ended by {signal.Signals(-code).name}"
    if code in (0, STOPPED):
        return f"left before the others, with exit code {code}"
    return "" if code in (2, 3) else f"ended with exit code {code}; what it said is above"


def _end(workers: Workers) -> None:
    """Ask the workers that are left to stop, then make them, with all they started."""
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
def _forwarding_signals(workers: Workers) -> Iterator[list[Request]]:
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
