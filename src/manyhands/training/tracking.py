"""Trackers of a run, each in a process of its own: none can stop or slow training."""

import math
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version

from manyhands.config.sections.trackers import enabled_trackers
from manyhands.config.train import TrainConfig
from manyhands.errors import EnvironmentFault
from manyhands.launch.background import start_in_background
from manyhands.launch.outcome import Ending
from manyhands.observe.run_log import NullRunLog, RunLog
from manyhands.observe.trackers.notes import Notes, notes_file, read_notes, write_notes
from manyhands.observe.trackers.tracked_run import TrackedRun
from manyhands.parallel.stop_notice import StopNotice
from manyhands.parallel.world import World
from manyhands.training.step.trial import exit_reason, last_line
from manyhands.training.tracking_process import request_of

PROGRAM = "manyhands.training.tracking_process"
POLL_S = 5.0  # Time between two looks at the notes of trackers.
FINISH_S = 120.0  # How long a finished run waits for its trackers.
STOP_S = 10.0  # How long a stopped or failed run waits for them.
WAIT_S = 0.05
FAILED = 1
RESTART_S = (30.0, 120.0, 600.0)  # How long a tracker that failed waits to be started again.
CONTINUES = "Nothing is lost: metrics.jsonl is complete, and --resume logs the rest"


def reject_missing_trackers(config: TrainConfig) -> None:
    """Raise if the package of an enabled tracker is not installed."""
    for name in enabled_trackers(config):
        try:
            version(name)
        except PackageNotFoundError:
            raise EnvironmentFault(
                f"--{name}.enable=true needs the package {name}. Install: pip install "
                "'manyhands[track]'"
            ) from None


def without_facts(notes: Notes) -> Notes:
    """Notes with the id of a run alone, if there is one."""
    return {name: value for name, value in notes.items() if name == "id"}


class TrackerProcess:
    """The process of one tracker, started again a few times if it fails."""

    def __init__(self, name: str, run: TrackedRun, gpu: int) -> None:
        self.name = name
        self._run = run
        self._gpu = gpu
        self._log = notes_file(run.run_dir, name).with_suffix(".log")
        self._pauses_s = iter(RESTART_S)
        self._restart_at: float | None = None  # None while it runs, infinity after the last time.
        self.notes: Notes = {}
        self._has_warned = False
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        # Of the notes so far only the id is still true.
        run_dir = self._run.run_dir
        write_notes(run_dir, self.name, without_facts(read_notes(run_dir, self.name)))
        command = [sys.executable, "-m", PROGRAM]
        process = start_in_background(command, self._log, self._gpu, num_compile_threads=1)
        send(process, request_of(self.name, self._run))
        return process

    def messages(self) -> Iterator[str]:
        """Messages since the last call; starts a process that failed again, after a while."""
        yield from self._warnings()
        if self._process.poll():
            yield from self._recover()

    def _warnings(self) -> Iterator[str]:
        notes = read_notes(self._run.run_dir, self.name)
        warning = notes.pop("warning", None)
        if warning is not None and not self._has_warned:
            self._has_warned = True
            yield f"WARNING: {warning}"
        self.notes = notes

    def _recover(self) -> Iterator[str]:
        if self._restart_at is None:
            pause_s = next(self._pauses_s, math.inf)
            self._restart_at = time.monotonic() + pause_s
            again = f"It starts again in {pause_s:g} s" if pause_s < math.inf else CONTINUES
            yield f"WARNING: {self._failure()}. {again}"
        elif time.monotonic() >= self._restart_at:
            self._restart_at = None
            # A machine that cannot start it now may do so later.
            with suppress(OSError):
                self._process = self._start()

    def _failure(self) -> str:
        reason = exit_reason(self._process.returncode)
        return f"{self.name} {reason}: {last_line(self._log)}; see {self._log}"

    def close(self, exit_code: int) -> None:
        """Ask the tracker to log the rest of the run and to end."""
        send(self._process, b"%d\n" % exit_code)

    @property
    def is_running(self) -> bool:
        """Whether the tracker still logs."""
        return self._process.poll() is None

    def end(self) -> Iterator[str]:
        """End a tracker that takes too long; yields what to log."""
        yield from self._warnings()
        if self.is_running:
            self._process.kill()
            self._process.wait()
            yield f"WARNING: {self.name} did not finish in time, see {self._log}. {CONTINUES}"
        elif self._process.returncode and self._restart_at != math.inf:
            yield f"WARNING: {self._failure()}. {CONTINUES}"


def send(process: subprocess.Popen[bytes], message: bytes) -> None:
    """Write to the input of a process; one that ended is reported by its exit code."""
    assert process.stdin is not None
    with suppress(OSError):
        process.stdin.write(message)
        process.stdin.flush()


class Tracking:
    """The trackers of a run; none on other ranks than the main one."""

    def __init__(self, run: TrackedRun, run_log: RunLog | NullRunLog, world: World) -> None:
        self._run = run
        self._run_log = run_log
        self._world = world
        self._processes: list[TrackerProcess] = []
        self._facts: dict[str, Notes] = {}
        self._next_s = 0.0

    def start(self) -> None:
        """Start the trackers of the config."""
        for name in enabled_trackers(self._run.config) if self._world.is_main else ():
            try:
                process = TrackerProcess(name, self._run, self._world.device.index or 0)
            except OSError as error:
                self._run_log.log_line(f"WARNING: {name} cannot be started: {error}. {CONTINUES}")
            else:
                self._processes.append(process)

    def report(self) -> None:
        """Log messages of trackers, and note their runs in run.json; does nothing most times."""
        if self._processes and time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + POLL_S
            for process in self._processes:
                self._run_log.log(process.messages())
            self._note()

    @contextmanager
    def until_failure(self) -> Iterator[None]:
        """End the trackers of a run that fails."""
        try:
            yield
        except BaseException:
            # A missing folder must not hide the error that ended the run.
            with suppress(EnvironmentFault):
                self._finish(FAILED, STOP_S)
            raise

    def finish(self, ending: Ending) -> None:
        """Wait for the trackers, for a limited time."""
        self._finish(0, FINISH_S if ending is Ending.FINISHED else STOP_S)

    def _finish(self, exit_code: int, max_s: float) -> None:
        # Other ranks wait for the main one here, which is not a hang.
        with self._world.watch.without_timeout("waiting for trackers"):
            self._wait(exit_code, max_s)
        for process in self._processes:
            self._run_log.log(process.end())
        self._note()

    def _wait(self, exit_code: int, max_s: float) -> None:
        start, must_stop = time.monotonic(), StopNotice(self._world)
        for process in self._processes:
            process.close(exit_code)
        while any(process.is_running for process in self._processes):
            if must_stop():
                max_s = min(max_s, STOP_S)
            if time.monotonic() > start + max_s:
                break
            time.sleep(WAIT_S)

    def _note(self) -> None:
        facts = {process.name: process.notes for process in self._processes if process.notes}
        if facts != self._facts:
            self._facts = facts
            self._run_log.note({"trackers": facts})
