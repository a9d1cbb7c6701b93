"""One process of a run from its start to its end, and what its log, rows and samples say."""

import re
import signal
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import psutil
from run_job import END_S, Job, is_alive, kill_all, log_of

from manyhands.config.runs.run_dir import CHECKPOINTS
from manyhands.launch.environment import KERNELS
from manyhands.observe.jsonl import read_rows

MAIN = Path(__file__).with_name("sampled_main.py")
STEP = re.compile(r"step (\d+)/")
TRYING = "Trying the compiled step"
SWITCHED = "Switched to the compiled step"
CACHED = "cached by an earlier run"
DECISIONS = (SWITCHED, "Compiled step not", "Compiled step disabled", "CUDA graph disabled")
DECISIONS += ("Running eagerly",)
"""What a run logs once it is decided whether it switches."""
STOPPED = 75
STOP_S = 180.0
"""How long a run may take to save its state and end."""
FULL_SPEED = 1.1
"""A step at full speed takes at most this many times the median."""

Row = dict[str, Any]
Line = tuple[float, str]
"""Time, and what was logged."""


class Start:
    """A process that trains."""

    def __init__(self, folder: Path, number: int, flags: Sequence[str], deadline_s: float) -> None:
        self._run_dir = folder / "run"
        self._kernels = folder / "compiled"
        self._memory = folder / f"memory-{number}.jsonl"
        self._num_skipped = len(log_of(self._run_dir))
        self._began = time.time()
        argv = [sys.executable, str(MAIN), str(self._memory), "train", *flags]
        environ = {KERNELS: str(self._kernels)}
        self.job = Job(argv, self._run_dir, deadline_s, environ=environ)

    def wait_for_step(self) -> None:
        """Wait until a step is logged."""
        self.job.wait_until(lambda: "  step " in self._log())

    def wait_for_decision(self) -> str:
        """Wait until the log says whether the run switches, and return that line."""
        self.job.wait_until(lambda: any(each in self._log() for each in DECISIONS))
        texts = [text for _, text in lines_of(self._log())]
        return next(text for text in texts if any(each in text for each in DECISIONS))

    def wait_for_checkpoint(self) -> None:
        """Wait until one more checkpoint is complete."""
        last = self._run_dir / CHECKPOINTS / "last"
        before = last.resolve()
        self.job.wait_until(lambda: last.resolve() != before)

    def train_for(self, seconds: float) -> None:
        """Let it train for some time."""
        until = time.monotonic() + seconds
        self.job.wait_until(lambda: time.monotonic() >= until)

    def stop(self) -> None:
        """Ask it to stop, as a scheduler does."""
        self.job.launcher.send_signal(signal.SIGTERM)
        self.job.end(STOPPED, STOP_S)
        self._check_processes()

    def kill(self) -> None:
        """Kill the process that trains."""
        self.job.launcher.kill()
        self.job.end(-signal.SIGKILL, END_S)
        self._check_processes()

    def _check_processes(self) -> None:
        """Loaders, trials and compilers end with the run, whoever is their parent by then."""
        deadline = time.monotonic() + END_S
        while (left := processes_of(self._kernels)) and time.monotonic() < deadline:
            time.sleep(0.1)
        told = "\n".join(" ".join(each.cmdline()) for each in left if is_alive(each))
        kill_all(left)
        assert not told, f"processes are left:\n{told}"

    def _log(self) -> str:
        return log_of(self._run_dir)[self._num_skipped :]

    @cached_property
    def lines(self) -> list[Line]:
        """What it logged; to be read after its end."""
        return lines_of(self._log())

    @cached_property
    def phases(self) -> dict[str, list[Row]]:
        """Its rows before, during and after compiling; to be read before the run is resumed."""
        return phases_of(self.lines, list(read_rows(self._run_dir / "metrics.jsonl")))

    @property
    def rows(self) -> list[Row]:
        """All of its rows."""
        return [row for rows in self.phases.values() for row in rows]

    @property
    def samples(self) -> list[Row]:
        """The samples of its memory."""
        return list(read_rows(self._memory))

    def time_of(self, text: str) -> float | None:
        """When a text was logged first."""
        return next((stamp for stamp, line in self.lines if text in line), None)

    @property
    def first_step_s(self) -> float:
        """Seconds from the start of the process to its first logged step."""
        return max(0.0, (self.time_of_step() or self._began) - self._began)

    def time_of_step(self) -> float | None:
        """When a step was logged first."""
        return next((stamp for stamp, text in self.lines if STEP.match(text)), None)


def processes_of(kernels: Path) -> list[psutil.Process]:
    """The processes that cache kernels in a folder, which is that of one run."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(KERNELS) == str(kernels) and is_alive(process):
                found.append(process)
        except psutil.Error:
            continue
    return found


def lines_of(log: str) -> list[Line]:
    """The complete lines of a log."""
    found = []
    for line in log[: log.rfind("\n") + 1].splitlines():
        stamp, _, text = line.partition("  ")
        if re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", stamp):
            time_s = datetime.strptime(stamp, "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC).timestamp()
            found.append((time_s, text))
    return found


def phases_of(lines: Sequence[Line], rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Rows by what the log says around them; a run without a trial is before all along."""
    by_step = {row["step"]: row for row in rows}
    phases: dict[str, list[Row]] = {"before": [], "during": [], "after": []}
    phase = "before"
    for _, text in lines:
        if TRYING in text:
            phase = "during"
        elif any(each in text for each in DECISIONS):
            phase = "after"
        match = STEP.match(text)
        if match and int(match[1]) in by_step:
            phases[phase].append(by_step[int(match[1])])
    return phases


def steps_per_s(rows: Sequence[Row]) -> float | None:
    """The usual speed."""
    return 1 / median(row["step_s"] for row in rows) if rows else None


def timed(rows: Sequence[Row]) -> list[tuple[float, float, Row]]:
    """Rows but for the first, with the seconds from the end of that one to their begin and end."""
    found, elapsed = [], 0.0
    for before, row in pairwise(rows):
        seconds = (row["step"] - before["step"]) * row["step_s"]
        found.append((elapsed, elapsed + seconds, row))
        elapsed += seconds
    return found


def full_speed_s(rows: Sequence[Row]) -> float | None:
    """Seconds from the first logged step until steps are as fast as in the second half."""
    if len(rows) < 4:
        return None
    usual = median(row["step_s"] for row in rows[len(rows) // 2 :])
    return next(begin for begin, _, row in timed(rows) if row["step_s"] <= FULL_SPEED * usual)


def pause_s(rows: Sequence[Row]) -> float | None:
    """The longest time between two logged steps, beyond the usual one."""
    laps = [end - begin for begin, end, _ in timed(rows)]
    return max(laps) - median(laps) if laps else None


def samples_per_minute(rows: Sequence[Row]) -> list[float]:
    """Samples per second of every full minute."""
    totals: dict[int, float] = {}
    elapsed = 0.0
    for begin, end, row in timed(rows):
        minute = int(begin // 60)
        totals[minute] = totals.get(minute, 0.0) + row["samples_per_s"] * (end - begin)
        elapsed = end
    return [totals.get(minute, 0.0) / 60 for minute in range(int(elapsed // 60))]
