"""Kills a run repeatedly, and compares its result with an uninterrupted run."""

import shutil
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from manyhands.config.runs.run_dir import newest_intact
from manyhands.errors import CheckpointError
from manyhands_bench.resume.cases import NUM_STEPS, Case
from manyhands_bench.resume.compare import interim_differences, last_step, run_differences
from manyhands_bench.resume.moments import (
    Kill,
    Moment,
    RunObserver,
    wait_for_kill,
    wait_for_updates,
    wait_in_start,
)
from manyhands_bench.resume.processes import Member, Started, Starter, Stuck, chosen

KILLS_PER_RUN = 6
FIRST_START_S = 4.0
"""Estimated time of a start before the first measurement."""
LOG_LINES = 40


class Failure(Exception):
    """A fault caused by a kill."""


@dataclass
class Tally:
    """The results of one case."""

    case: str
    moments: Counter[str] = field(default_factory=Counter)
    victims: Counter[str] = field(default_factory=Counter)
    starts: Counter[str] = field(default_factory=Counter)
    """Kills by how the run was started."""
    runs: int = 0
    """Killed runs that finished and equal the uninterrupted one."""
    failures: list[str] = field(default_factory=list)

    @property
    def kills(self) -> int:
        """The number of kills."""
        return self.victims.total()


class Trial:
    """All runs of one case: one uninterrupted run, and the killed ones."""

    def __init__(
        self, case: Case, dataset: Path, folder: Path, starter: Starter, on_kill: Callable[[], None]
    ) -> None:
        self._case = case
        self._folder = folder
        self._starter = starter
        self._on_kill = on_kill
        self._flags = (f"--dataset.root={dataset}", *case.flags, "--resume=auto")
        self._start_s: dict[bool, float] = {}
        self._reference = folder / "reference"
        self._tally = Tally(case.name)

    def run(self, kills: Iterable[Kill]) -> Tally:
        """Run all kills, in as many runs as needed."""
        self._folder.mkdir(parents=True)
        left, number = deque(kills), 0
        # The reference keeps all checkpoints, to compare with each.
        if not self._succeeds([], lambda: self._finish(self._reference, "--keep_last=null")):
            return self._tally
        while left:
            number += 1
            self._kill_and_compare(self._folder / f"run-{number:02d}", left)
        return self._tally

    def _kill_and_compare(self, run_dir: Path, left: deque[Kill]) -> None:
        """Kill one run several times, finish and compare it; always consumes a kill."""
        made: list[str] = []
        if not self._succeeds(made, lambda: self._kill_often(run_dir, left, made)):
            if not made:
                left.popleft()
            return
        self._tally.runs += 1
        shutil.rmtree(run_dir)

    def _succeeds(self, made: list[str], work: Callable[[], None]) -> bool:
        """Run work; returns whether it succeeded. Records a failure with its kills."""
        try:
            work()
        except (Failure, Stuck, CheckpointError) as failure:
            killed = "\n    ".join(made) or "nothing"
            self._tally.failures.append(f"{self._case.name}: {failure}\n  killed: {killed}")
            self._starter.clear(at_once=True)
            return False
        return True

    def _kill_often(self, run_dir: Path, left: deque[Kill], made: list[str]) -> None:
        while left and len(made) < KILLS_PER_RUN and last_step(run_dir) < NUM_STEPS:
            description = self._kill_once(run_dir, left[0])
            if description is None:
                break
            made.append(description)
            left.popleft()
            self._on_kill()
            refuse(self._starter.clear())
            refuse(interim_differences(self._reference, run_dir))
        self._finish(run_dir)
        refuse(run_differences(self._reference, run_dir))

    def _kill_once(self, run_dir: Path, kill: Kill) -> str | None:
        """Start a run and kill one process; returns a description, or None if it ended before."""
        newest = newest_intact(run_dir)
        trail = RunObserver(run_dir, 0 if newest is None else int(newest.name))
        started = self._start(run_dir, kill.by_launcher)
        victim = self._wait(kill, trail, started)
        if victim is None:
            self._check_end(run_dir, started)
            return None
        moment = trail.moment().value
        victim.kill()
        self._tally.moments[moment] += 1
        self._tally.victims[victim.role] += 1
        self._tally.starts["launched" if kill.by_launcher else "forked"] += 1
        code = started.wait()
        return f"{victim.role} in {moment}, then exit code {code}; planned: {kill}"

    def _wait(self, kill: Kill, trail: RunObserver, started: Started) -> Member | None:
        """Wait for the time of a kill and choose its process; None if the run ended before."""
        if kill.moment is Moment.START:
            start_s = self._start_s.get(kill.by_launcher, FIRST_START_S)
            comes = wait_in_start(kill, start_s, trail, started.is_over)
            return chosen(started.members(), kill.victim) if comes else None
        if not wait_for_updates(trail, 1, started.is_over):
            return None
        self._start_s[kill.by_launcher] = started.age_s
        # Chosen ahead: listing processes takes about as long as a save.
        victim = chosen(started.members(), kill.victim)
        return victim if wait_for_kill(kill, trail, started.is_over) else None

    def _start(self, run_dir: Path, by_launcher: bool, *flags: str) -> Started:
        arguments = [*self._flags, *flags, f"--output_dir={run_dir}"]
        start = self._starter.launch if by_launcher else self._starter.fork
        return start(arguments, self._case.num_ranks, log_of(run_dir))

    def _finish(self, run_dir: Path, *flags: str) -> None:
        """Run to the end."""
        self._check_end(run_dir, self._start(run_dir, False, *flags))

    def _check_end(self, run_dir: Path, started: Started) -> None:
        """Raise if a run failed without a kill."""
        code = started.wait()
        refuse(self._starter.clear())
        if code != 0:
            lines = log_of(run_dir).read_text(errors="replace").splitlines()[-LOG_LINES:]
            raise Failure("\n".join([f"exit code {code} in {run_dir}; end of its log:", *lines]))


def log_of(run_dir: Path) -> Path:
    """The log file of all starts of a run."""
    return run_dir.with_suffix(".log")


def refuse(faults: Iterable[str]) -> None:
    """Raise if there are any faults."""
    listed = list(faults)
    if listed:
        raise Failure("\n".join(listed[:8]))
