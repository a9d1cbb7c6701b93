"""Moments to kill at: drawn from a seed, and waited for by looking at the files of a run."""

import os
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from manyhands.bench.resume.cases import SAVE_EVERY
from manyhands.config.folders import CHECKPOINTS
from manyhands.observe.audit import audit_file
from manyhands.observe.rows import read_rows

POLL_S = 0.001
SHORTEST_S, LONGEST_S = 1e-4, 0.2
"""How long after something has begun a kill may fall, from the first write to after the last."""
LAUNCHER_EVERY = 5
"""Every so many kills the run is started by the program itself instead of being forked."""
SCRATCH = ("partial", "shards", "removed")
"""Endings of what is in checkpoints/ only while one is written or removed."""


class Moment(Enum):
    """What a run is doing."""

    START = "start"
    UPDATE = "update"
    SAVE = "save"


PLANNED = (Moment.SAVE,) * 5 + (Moment.UPDATE,) * 2 + (Moment.START,) * 2
"""How often each is aimed at: most of what can go wrong goes wrong in a save."""


@dataclass(frozen=True)
class Kill:
    """A kill that is planned."""

    moment: Moment
    num_updates: int
    """Updates to let pass first."""
    is_late: bool
    """Whether to wait for the first file of a start, or for the end of a save."""
    place: float
    """Where in the moment it falls, from 0 to 1."""
    victim: float
    """Which of the processes it hits, from 0 to 1."""
    by_launcher: bool
    """Whether the run is started as users start it."""

    @property
    def delay_s(self) -> float:
        """How long to wait once the moment has come; short times are as likely as long ones."""
        return float(SHORTEST_S * (LONGEST_S / SHORTEST_S) ** self.place)


def planned_kills(seed: int, number: int) -> list[Kill]:
    """That many kills, always the same ones for a seed."""
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


class Trail:
    """What can be seen of a run from outside, from just before it is started on."""

    def __init__(self, run_dir: Path, start: int) -> None:
        """`start` is the step that the run will go on from."""
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
        """Whether the start has put something into the folder of the run."""
        return self._everything() != self._first_seen

    def num_updates(self) -> int:
        """Updates that were made since the start."""
        now = self._audit_file()
        # Whoever goes on takes back what is made again, and so puts another file in its place.
        if now[0] != self._old_audit[0] and now != self._audit_seen:
            self._audit_seen = now
            rows = list(read_rows(self._audit))
            self._num_updates = max(0, int(rows[-1]["step"]) - self._start) if rows else 0
        return self._num_updates

    def is_saving(self) -> bool:
        """Whether a checkpoint is being written or removed."""
        return any(name.startswith(".") and name.endswith(SCRATCH) for name in self._names())

    def moment(self) -> Moment:
        """What the run is doing."""
        if self.num_updates() == 0:
            return Moment.START
        return Moment.SAVE if self.is_saving() else Moment.UPDATE

    def saved(self) -> set[str]:
        """The checkpoints that are there."""
        return {name for name in self._names() if name.isdecimal()}

    def _names(self) -> list[str]:
        return [name for name, _ in entries_of(self._run_dir / CHECKPOINTS)]


def entries_of(folder: Path) -> set[tuple[str, int]]:
    """The names in a folder, each with what tells one file from another of its name."""
    try:
        with os.scandir(folder) as entries:
            return {(entry.name, entry.inode()) for entry in entries}
    except FileNotFoundError:
        return set()


def wait_until(condition: Callable[[], bool], is_over: Callable[[], bool]) -> bool:
    """Look again and again until something is the case; False if it is over before."""
    while not condition():
        if is_over():
            return False
        time.sleep(POLL_S)
    return True


def wait_for_updates(trail: Trail, number: int, is_over: Callable[[], bool]) -> bool:
    """Wait until a run that was started has made updates; False if it is over before."""
    return wait_until(lambda: trail.num_updates() >= number, is_over)


def wait_in_start(kill: Kill, start_s: float, trail: Trail, is_over: Callable[[], bool]) -> bool:
    """Wait until a start, which usually takes some time, comes to the moment of a kill."""
    if kill.is_late:
        comes = wait_until(trail.has_begun, is_over)
        time.sleep(kill.delay_s)
        return comes
    end = time.monotonic() + kill.place * start_s
    return wait_until(lambda: time.monotonic() > end, is_over)


def wait_for_kill(kill: Kill, trail: Trail, is_over: Callable[[], bool]) -> bool:
    """Wait until a run that makes updates comes to the moment of a kill; False if it ends before.

    What it does then is another matter: it goes on while the last bit of time passes.
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
