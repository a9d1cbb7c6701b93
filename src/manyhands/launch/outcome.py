"""The common outcome of workers, from the exit code of each."""

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from manyhands.errors import Diverged, RankLost, Stopped, UserError
from manyhands.stop import SIGNALS

STOPPED = Stopped.exit_code
LOST = RankLost.exit_code
ABORTED = -signal.SIGABRT
"""How NCCL ends a rank whose peer is gone, which a fault of its own may do as well."""
INTERRUPTED = 128 + signal.SIGINT
UNHEARD = tuple(-number for number in SIGNALS)
"""Exit codes of workers that were asked to stop before they listened."""
SPOKEN = (UserError.exit_code, Diverged.exit_code)
"""Exit codes of workers that said themselves all there is to say."""

Codes = Sequence[int | None]  # Exit codes by rank; None while a worker lives.


@dataclass(frozen=True)
class WorkerDeath:
    """A worker that failed or exited too early."""

    rank: int
    code: int

    @property
    def how(self) -> str:
        """Describe how it ended."""
        if self.code == -signal.SIGKILL:
            return "was killed by SIGKILL, probably out of memory"
        if self.code < 0:
            return f"was killed by {signal.Signals(-self.code).name}"
        if self.code in (0, STOPPED):
            return f"exited before the others, with exit code {self.code}"
        return f"failed with exit code {self.code}; see its output above"


@dataclass(frozen=True)
class Outcome:
    """Outcome of all workers."""

    code: int  # The exit code of the whole.
    deaths: Sequence[WorkerDeath] = ()  # Ranks that failed by themselves.
    stop_requested: bool = False  # Whether a signal asked the workers to stop.


def failed_ranks(codes: Codes) -> dict[int, int]:
    """The exit codes of ranks that neither finished nor stopped on request."""
    fine = (None, 0, STOPPED, *UNHEARD)
    return {rank: code for rank, code in enumerate(codes) if code not in fine and code is not None}


def is_explained(codes: Codes) -> bool:
    """Whether a rank failed on its own, not because of another rank."""
    return any(code not in (LOST, ABORTED) for code in failed_ranks(codes).values())


def outcome_of(codes: Codes) -> Outcome:
    """Determine the most informative exit code and the ranks that caused it."""
    failed = failed_ranks(codes)
    if not failed:
        return Outcome(STOPPED if any(codes) else 0)
    # A rank that fails on its own is reported; ranks that fail because of it are ignored.
    own = [WorkerDeath(rank, code) for rank, code in failed.items() if code not in (LOST, ABORTED)]
    own = own or [WorkerDeath(rank, code) for rank, code in failed.items() if code == ABORTED]
    early = [WorkerDeath(rank, code) for rank, code in enumerate(codes) if code in (0, STOPPED)]
    code = max((death.code for death in own), key=lambda code: (code > 1, code < 0), default=1)
    return Outcome(128 - code if code < 0 else code, own or early)


class Ending(Enum):
    """Why training returned."""

    FINISHED = "finished"
    STOPPED = "stopped"

    @property
    def exit_code(self) -> int:
        """The exit code of the process."""
        return EXIT_CODES[self]


EXIT_CODES = {Ending.FINISHED: 0, Ending.STOPPED: 75}


def ending_from_exit_code(exit_code: int) -> Ending:
    """Convert an exit code of workers to an ending; raises if they failed."""
    for ending, code in EXIT_CODES.items():
        if code == exit_code:
            return ending
    if exit_code == Diverged.exit_code:
        raise Diverged("training diverged")
    raise UserError(f"training failed with exit code {exit_code}; see its output above")
