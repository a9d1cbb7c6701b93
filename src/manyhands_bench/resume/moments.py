"""Times of kills: drawn from a seed, detected by polling the files of a run."""

import os
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from manyhands.config.runs.run_dir import CHECKPOINTS
from manyhands.observe.audit import audit_file
from manyhands.observe.jsonl import read_rows
from manyhands_bench.resume.cases import SAVE_EVERY

POLL_S = 0.001
SHORTEST_S, LONGEST_S = 1e-4, 0.2
"""Range of the delay of a kill, from the first write to after the last."""
LAUNCHER_EVERY = 5
"""Every Nth kill starts the run by the program itself instead of forking it."""
SCRATCH = ("partial", "shards", "removed")
"""Suffixes of temporary folders in checkpoints/."""


class Moment(Enum):
    """The phase of a run."""

    START = "start"
    UPDATE = "update"
    SAVE = "save"


PLANNED = (Moment.SAVE,) * 5 + (Moment.UPDATE,) * 2 + (Moment.START,) * 2
"""Relative frequencies: most faults happen in a save."""


@dataclass(frozen=True)
class Kill:
    """A planned kill."""

    moment: Moment
    num_updates: int
    """Steps before the kill."""
    is_late: bool
    """Whether to wait for the first file of a start, or for the end of a save."""
    place: float
    """Position in the phase, from 0 to 1."""
    victim: float
    """Which process it hits, from 0 to 1."""
    by_launcher: bool
    """Whether the program starts the run, as for users."""

    @property
    def delay_s(self) -> float:
        """The delay in the phase, log-uniform."""
        return float(SHORTEST_S * (LONGEST_S / SHORTEST_S) ** self.place)


def planned_kills(seed: int, number: int) -> list[Kill]:
    """A number of kills, deterministic for a seed."""
    draw = random.Random(seed)
    order: list[Moment] = []
    while len(order) < number:
        order += draw.sample(PLANNED, len(PLANNED))
    return [
        Kill(
            moment=moment,
            num_updates=draw.randint(1, 2 * SAVE_EVERY),
            is_late=draw.random() < 0.4,
            place=draw.random(),
            victim=draw.random(),
            by_launcher=count % LAUNCHER_EVERY == 0,
        )
        for count, moment in enumerate(order[:number], start=1)
    ]


class RunObserver:
    """The visible progress of a run, from just before its start."""

    def __init__(self, run_dir: Path, start: int) -> None:
        """`start` is the step that the run resumes from."""
        self._run_dir = run_dir
        self._audit = run_dir / "audit" / audit_file(0)
        self._start = start
        self._first_seen = self._everything()
        self._old_audit = self._audit_file()
        self._audit_seen = self._old_audit
        self._num_updates = 0

    def _everything(self) -> set[tuple[str, int]]:
        return entries_of(self._run_dir) | entries_of(self._audit.parent)

    def _audit_file(self) -> tuple[int, int]:
        try:
            found = self._audit.stat()
        except FileNotFoundError:
            return 0, 0
        return found.st_ino, found.st_size

    def has_begun(self) -> bool:
        """Whether the run has written to its folder."""
        return self._everything() != self._first_seen

    def num_updates(self) -> int:
        """Steps since the start."""
        now = self._audit_file()
        # A resumed run drops rows, and so replaces the file.
        if now[0] != self._old_audit[0] and now != self._audit_seen:
            self._audit_seen = now
            rows = list(read_rows(self._audit))
            self._num_updates = max(0, int(rows[-1]["step"]) - self._start) if rows else 0
        return self._num_updates

    def is_saving(self) -> bool:
        """Whether a checkpoint is being written or removed."""
        return any(name.startswith(".") and name.endswith(SCRATCH) for name in self._names())

    def moment(self) -> Moment:
        """The phase of the run."""
        if self.num_updates() == 0:
            return Moment.START
        return Moment.SAVE if self.is_saving() else Moment.UPDATE

    def saved(self) -> set[str]:
        """The existing checkpoints."""
        return {name for name in self._names() if name.isdecimal()}

    def _names(self) -> list[str]:
        return [name for name, _ in entries_of(self._run_dir / CHECKPOINTS)]


def entries_of(folder: Path) -> set[tuple[str, int]]:
    """Names and inodes of the entries of a folder."""
    try:
        with os.scandir(folder) as entries:
            return {(entry.name, entry.inode()) for entry in entries}
    except FileNotFoundError:
        return set()


def wait_until(condition: Callable[[], bool], is_over: Callable[[], bool]) -> bool:
    """Poll until a condition holds; False if the run ends before."""
    while not condition():
        if is_over():
            return False
        time.sleep(POLL_S)
    return True


def wait_for_updates(trail: RunObserver, number: int, is_over: Callable[[], bool]) -> bool:
    """Wait until a run has finished steps; False if it ends before."""
    return wait_until(lambda: trail.num_updates() >= number, is_over)


def wait_in_start(
    kill: Kill, start_s: float, trail: RunObserver, is_over: Callable[[], bool]
) -> bool:
    """Wait in the start of a run until the time of a kill."""
    if kill.is_late:
        comes = wait_until(trail.has_begun, is_over)
        time.sleep(kill.delay_s)
        return comes
    end = time.monotonic() + kill.place * start_s
    return wait_until(lambda: time.monotonic() > end, is_over)


def wait_for_kill(kill: Kill, trail: RunObserver, is_over: Callable[[], bool]) -> bool:
    """Wait in a training run until the time of a kill; False if it ends before.

    The run continues during the last delay, so its phase may change.
    """
    if not wait_for_updates(trail, trail.num_updates() + kill.num_updates, is_over):
        return False
    if kill.moment is Moment.SAVE:
        before = trail.saved()
        comes = (lambda: bool(trail.saved() - before)) if kill.is_late else trail.is_saving
        if not wait_until(comes, is_over):
            return False
    time.sleep(kill.delay_s)
    return True
