"""Reports a hang: the phase and the stacks of every rank."""

import faulthandler
import os
import sys
import threading
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from torch._C import _distributed_c10d as _c10d

from manyhands.errors import Diverged, UserError

MAX_SHOWN_LINES = 40
FLIGHT_RECORD = "flight_recorder_rank_"
FLIGHT_RECORD_S = 2.0


WAITING = (
    "/torch/distributed/",
    "/torch/nn/parallel/distributed.py",
    "/manyhands/parallel/",
    " in _engine_run_backward",
    "/torch/cuda/",
)
"""Where a main thread waits for other ranks: a collective, the backward pass of DDP, a GPU."""


class RankPhase(NamedTuple):
    """The phase of a rank."""

    num_phases: int
    phase: str
    since: float
    frame: str = ""
    """The innermost frame of the main thread of a rank that hangs."""

    def as_text(self) -> str:
        """The place as text for the store."""
        return f"{self.num_phases} {self.since} {self.phase}\n{self.frame}"

    @property
    def waits(self) -> bool:
        """Whether the main thread waits for other ranks."""
        return any(code in self.frame for code in WAITING)


def read_place(text: bytes) -> RankPhase:
    """A place from the store."""
    place, _, frame = text.decode().partition("\n")
    num_phases, since, phase = place.split(" ", 2)
    return RankPhase(int(num_phases), phase, float(since), frame)


def main_frame() -> str:
    """The innermost frame of the main thread: file, line and function."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    if frame is None:
        return ""
    return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"


def hang_message(
    places: list[RankPhase], silent: list[int], timeout_s: float, hang_dir: Path | None
) -> str:
    """The report: ranks without progress, and the places of all."""
    late = silent or late_ranks(places)
    ranks = f"rank{'s' if len(late) > 1 else ''} {', '.join(map(str, late))}"
    who = f"{ranks} {'did not respond' if silent else 'did not arrive'}"
    who = who if late else "all ranks are in the same phase"
    lines = [f"no progress for {timeout_s:g} s (--timeout_s): {who}"]
    now = time.time()
    lines += [
        f"  rank {rank}: in phase {place.phase!r} for {now - place.since:.0f} s"
        f"{', does not respond (stopped or frozen)' if rank in silent else ''}"
        f"{', at ' + place.frame if place.frame else ''}"
        for rank, place in enumerate(places)
    ]
    for rank in [each for each in late if each not in silent][:1]:
        lines += _stack_of(hang_dir, rank)
    where = f"; stacks of all responding ranks: {hang_dir}" if hang_dir else ""
    return "\n".join([*lines, f"run terminated{where}"])


def late_ranks(places: list[RankPhase]) -> list[int]:
    """Ranks in the earliest phase, of these the ones that others wait for; empty if unknown."""
    first = min(place.num_phases for place in places)
    behind = [rank for rank, place in enumerate(places) if place.num_phases == first]
    working = [rank for rank in behind if not places[rank].waits]
    late = working or behind
    return late if len(late) < len(places) else []


def _stack_of(hang_dir: Path | None, rank: int) -> list[str]:
    file = stack_file(hang_dir, rank) if hang_dir else None
    if file is None or not file.exists():
        return []
    # The main thread, which trains, comes last.
    _, _, stack = file.read_text(encoding="utf-8").rpartition("hread 0x")
    return [f"  stack of rank {rank}, innermost call first:"] + [
        f"  {line}" for line in stack.splitlines()[1:MAX_SHOWN_LINES]
    ]


def stack_file(hang_dir: Path, rank: int) -> Path:
    """The file with the stacks of a rank."""
    return hang_dir / f"rank-{rank:02d}.txt"


def write_stacks(hang_dir: Path | None, rank: int) -> None:
    """Write the stacks of all threads of this process to a file or the console."""
    if hang_dir is None:
        faulthandler.dump_traceback(sys.stderr, all_threads=True)
        return
    hang_dir.mkdir(parents=True, exist_ok=True)
    with stack_file(hang_dir, rank).open("w", encoding="utf-8") as file:
        faulthandler.dump_traceback(file, all_threads=True)


def write_flight_record(hang_dir: Path | None, rank: int) -> None:
    """Write torch's record of the last collectives of this process, for `torchfrtrace`."""
    # The function has another name before torch 2.13, and is missing without any backend.
    dump = getattr(_c10d, "_dump_fr_trace", None) or getattr(_c10d, "_dump_nccl_trace", None)
    if hang_dir is None or dump is None:
        return

    def write() -> None:
        with suppress(OSError):
            # Stacks are in a file of their own; torch takes seconds for those of the record.
            record = dump(includeStackTraces=False)
            (hang_dir / f"{FLIGHT_RECORD}{rank}").write_bytes(record)

    # Whatever is stuck may hold the lock of the record.
    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    writer.join(FLIGHT_RECORD_S)


def print_last(message: str) -> None:
    """Print why a run ends."""
    for line in message.splitlines():
        print(f"manyhands: {line}", file=sys.stderr)
    sys.stderr.flush()


def report(error: BaseException, rank: int) -> None:
    """Report the error that ends this process, unless the main thread did."""
    if isinstance(error, UserError | Diverged):
        if not error.is_reported:
            print_last(str(error) if error.is_common else f"rank {rank}: {error}")
    # Python sets it before it prints a traceback.
    elif getattr(sys, "last_value", None) is not error:
        print_last("".join(traceback.format_exception(error)))


def force_exit(code: int) -> None:
    """End this process whatever its threads do."""
    try:
        sys.stdout.flush()
    finally:
        # Also if the output is closed.
        os._exit(code)
