"""A run of `manyhands train` in processes of its own, started, watched and ended by a test."""

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import psutil

from manyhands.observe.jsonl import read_rows

END_S = 60.0
"""How long all processes may take to end once one has failed or was asked to stop."""
NUM_SHOWN = 100
"""Lines of the output that an error shows."""


class Job:
    """A run in processes of its own, and what all of them printed."""

    def __init__(
        self,
        argv: Sequence[str],
        run_dir: Path,
        deadline_s: float,
        path: Path | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.run_dir = run_dir
        self._log = run_dir.with_suffix(".log")
        self._deadline = time.monotonic() + deadline_s
        paths = [str(path) if path else "", *sys.path]
        changed = {"PYTHONPATH": os.pathsep.join(filter(None, paths)), **(environ or {})}
        with self._log.open("a") as output:
            self.launcher = psutil.Popen(
                argv, stdout=output, stderr=output, env=os.environ | changed
            )

    def printed(self) -> str:
        """The output of all ranks."""
        return self._log.read_text()

    def shown(self) -> str:
        """The end of the output, for an error."""
        return "\n".join(self.printed().splitlines()[-NUM_SHOWN:])

    def last_step(self) -> int:
        """The last step that was logged."""
        file = self.run_dir / "metrics.jsonl"
        rows = list(read_rows(file)) if file.exists() else []
        return rows[-1]["step"] if rows else 0

    def wait_until(self, is_so: Callable[[], bool]) -> None:
        """Wait for something while the run continues."""
        while not is_so():
            if self.launcher.poll() is not None:
                raise AssertionError(f"it ended early:\n{self.shown()}")
            self._check_deadline(self._deadline)
            time.sleep(0.05)

    def rank(self, number: int) -> psutil.Process:
        """The process of a rank."""
        # In the order in which they were started; a forked process has not its own variables there.
        children = self.launcher.children()
        return sorted(children, key=lambda each: (each.create_time(), each.pid))[number]

    def end(self, code: int, within_s: float, told: str = "") -> None:
        """Wait until no process is left, with an exit code and a message."""
        deadline, processes = time.monotonic() + within_s, [self.launcher]
        while any(map(is_alive, processes)):
            if is_alive(self.launcher):
                processes = [self.launcher, *self.launcher.children(recursive=True)]
            self._check_deadline(deadline, processes)
            time.sleep(0.05)
        found = self.launcher.wait()
        assert found == code, f"exit code {found}, not {code}:\n{self.shown()}"
        assert told in self.printed(), f"{told!r} was not reported:\n{self.shown()}"

    def kill(self) -> None:
        """End every process of the run that is left, without a word."""
        if is_alive(self.launcher):
            kill_all([self.launcher, *self.launcher.children(recursive=True)])

    def _check_deadline(self, deadline: float, processes: Sequence[psutil.Process] = ()) -> None:
        if time.monotonic() < deadline:
            return
        shown = self.shown()
        kill_all(processes or [self.launcher, *self.launcher.children(recursive=True)])
        raise AssertionError(f"it takes too long:\n{shown}")


def kill_all(processes: Sequence[psutil.Process]) -> None:
    """End the processes of a list that still run."""
    for process in processes:
        if is_alive(process):
            process.kill()


def is_alive(process: psutil.Process) -> bool:
    """Whether a process has not ended."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def log_of(run_dir: Path) -> str:
    """What a run has logged so far."""
    file = run_dir / "log.txt"
    return file.read_text() if file.exists() else ""
