"""The logs of a run, written by the main rank: console, log.txt, JSON files."""

import json
import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from manyhands.atomic import atomic_file
from manyhands.config.runs.run_dir import missing_run_dir, unwritable_run_dir
from manyhands.errors import EnvironmentFault, Stopped
from manyhands.observe.console import Display
from manyhands.observe.diagnosis.run_verdict import VerdictWatch, read_facts
from manyhands.observe.jsonl import AppendFile, JsonLines
from manyhands.observe.progress_line import Metrics
from manyhands.observe.start_phases import StartPhases

Facts = dict[str, Any]

RANKS_FILE = "ranks.jsonl"  # Times and load of every rank.
NONFINITE_FILE = "nonfinite.jsonl"  # Steps with NaN or Inf, and their samples.


class RunLog:
    """Logs a run to the console and to files."""

    def __init__(
        self, run_dir: Path, num_steps: int, step: int, phases: StartPhases | None = None
    ) -> None:
        self._run_dir = run_dir
        self._start_phases = phases or StartPhases(is_shown=False)
        self._display = Display(num_steps, step)
        self._log_file = AppendFile(run_dir / "log.txt")
        with self._opening():
            run_dir.mkdir(parents=True, exist_ok=True)
            self._metrics = JsonLines(run_dir / "metrics.jsonl", step)
            self._ranks = JsonLines(run_dir / RANKS_FILE, step)
            self._incidents = JsonLines(run_dir / NONFINITE_FILE, step)
        self._verdicts = VerdictWatch(run_dir)
        self._facts: Facts = {}
        self._earlier_s = earlier_s(run_dir)
        self._has_warned = self._has_quit = False
        # A second Ctrl-C is recorded by a thread: the main thread may hang.
        self._lock = threading.RLock()
        self._started = time.monotonic()

    @contextmanager
    def following(self, quit_ending: Callable[[], str] | None = None) -> Iterator[None]:
        """Show progress, and record the ending of the run in any case.

        `quit_ending` describes the ending by a second Ctrl-C.
        """
        try:
            with self._display:
                yield
        except KeyboardInterrupt:
            with suppress(EnvironmentFault):
                self.log_quit(quit_ending() if quit_ending else "quit without saving")
            raise
        except BaseException as error:
            is_stop = isinstance(error, Stopped)
            # A missing folder must not hide the error that ended the run.
            with suppress(EnvironmentFault):
                self.log_verdict({}, at_end=True)
                self.log_end("stopped" if is_stop else f"failed: {type(error).__name__}")
            raise

    def log_start(self, facts: Facts, banner: list[str]) -> None:
        """Write the facts of the run, and log its banner."""
        self._facts = {"started_at": datetime.now(UTC).isoformat(), "ending": None, **facts}
        with self._opening():
            self._replace_facts()
        self.log(banner)

    @contextmanager
    def _opening(self) -> Iterator[None]:
        """A disk that is full before the first step is a usage error."""
        try:
            yield
        except OSError as error:
            raise unwritable_run_dir(self._run_dir, error) from None

    def note(self, facts: Facts) -> None:
        """Add facts to run.json."""
        with self._lock:
            self._facts |= facts
            self._write_facts()

    @property
    def step(self) -> int:
        """The last step that was done."""
        return self._display.step

    def print_line(self, text: str) -> None:
        """Print a line to the console alone, from any thread."""
        self._display.print_line(text)

    def log_line(self, text: str) -> None:
        """Log a message to the console and to log.txt."""
        self._display.print_line(text)
        self._log(text)

    def log(self, lines: Iterable[str]) -> None:
        """Log several messages."""
        for line in lines:
            self.log_line(line)

    def advance(self, step: int, recent: Callable[[], Metrics]) -> None:
        """Show that a step is done, and once a second the metrics on a terminal."""
        self._display.advance(step)
        if self._display.wants_metrics:
            self._display.refresh(recent())
        self.log(self._start_phases.end())

    def record(self, step: int, metrics: Metrics) -> None:
        """Log the metrics of the steps since the last row."""
        self._metrics.append({"step": step, **metrics})
        self._judge(self._metrics.fault)
        self._log(self._display.measure(step, metrics))

    def record_ranks(self, step: int, ranks: Iterable[Facts]) -> None:
        """Log what each rank measured since the last row."""
        self._ranks.append(*({"step": step, **row} for row in ranks))
        self._judge(self._ranks.fault)

    def record_incident(self, step: int, facts: Facts) -> None:
        """Record a step with NaN or Inf."""
        self._incidents.append({"step": step, **facts})
        self._judge(self._incidents.fault)

    def truncate(self, step: int) -> None:
        """Drop metrics after a step, whose steps run again; incidents stay."""
        self._attempt(lambda: self._metrics.keep_until(step))
        self._attempt(lambda: self._ranks.keep_until(step))
        self._display.advance(step)

    def lacks(self, step: int, name: str) -> bool:
        """Whether the last row is of a step and lacks a metric."""
        row = self._metrics.last()
        return row.get("step") == step and name not in row

    def amend(self, step: int, metrics: Metrics) -> None:
        """Add metrics to the row of a step."""
        if metrics:
            self._attempt(lambda: self._metrics.amend(step, metrics))

    def log_verdict(self, facts: Facts, at_end: bool = False) -> None:
        """Log what is wrong with the run, every few minutes and at its end, if that has changed."""
        if not at_end and not self._verdicts.is_due:
            return
        verdict = self._verdicts.judge(self._facts | facts)
        self.note(facts | verdict.facts)
        self.log(verdict.lines)

    def log_end(self, ending: str) -> None:
        """Write the ending of the run to run.json."""
        self.note({"ending": ending})

    def log_quit(self, ending: str) -> None:
        """Record that the user quit, once, from any thread."""
        with self._lock:
            if not self._has_quit:
                self._has_quit = True
                self._log(ending)
                self.log_end(ending)

    def _log(self, line: str) -> None:
        stamp = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S")
        with self._lock:
            self._log_file.append(f"{stamp}  {line}\n")
        self._judge(self._log_file.fault)

    def _judge(self, fault: OSError | None) -> None:
        """Continue if the disk is full, but not if the folder is missing."""
        if fault is None:
            return
        removal = missing_run_dir(self._run_dir)
        if removal is not None:
            raise EnvironmentFault(removal)
        if not self._has_warned:
            self._has_warned = True
            self._display.print_line(
                f"WARNING: cannot write to {self._run_dir}: {fault.strerror}. Training continues; "
                "log.txt and metrics.jsonl are completed once there is disk space"
            )

    def _attempt(self, write: Callable[[], None]) -> None:
        try:
            write()
        except OSError as error:
            self._judge(error)

    def _write_facts(self) -> None:
        self._attempt(self._replace_facts)

    def _replace_facts(self) -> None:
        # In every version of the file: a run that is killed writes no ending.
        wall_s = self._earlier_s + time.monotonic() - self._started
        facts = self._facts | {"wall_s": wall_s}
        with self._lock, atomic_file(self._run_dir / "run.json") as scratch:
            scratch.write_text(json.dumps(facts, indent=2, default=str), encoding="utf-8")


def earlier_s(run_dir: Path) -> float:
    """Seconds that earlier processes of a run took, as far as its run.json knows."""
    known = read_facts(run_dir).get("wall_s")
    return float(known) if isinstance(known, int | float) and 0 <= known < math.inf else 0.0


class NullRunLog:
    """The no-op journal of all other ranks."""

    step = 0

    @contextmanager
    def following(self, quit_ending: Callable[[], str] | None = None) -> Iterator[None]:
        """Do nothing."""
        yield

    def lacks(self, step: int, name: str) -> bool:
        """Lack nothing."""
        return False

    def __getattr__(self, name: str) -> Callable[..., None]:
        # Every other method of a run log does nothing.
        return lambda *_: None
