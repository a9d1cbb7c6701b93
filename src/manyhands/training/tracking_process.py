"""The process of one tracker: `python -m`, with a request on stdin, then the end of the run."""

import fcntl
import os
import pickle
import signal
import sys
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import IO

from manyhands.launch.background import lower_priority
from manyhands.observe.trackers.build import build_tracker
from manyhands.observe.trackers.follow import follow
from manyhands.observe.trackers.notes import notes_file
from manyhands.observe.trackers.tracked_run import TrackedRun

STOPPED = 75
KILLED = 1


class RunEnd:
    """Waits for the exit code of the run on stdin; none comes from a run that was killed."""

    def __init__(self) -> None:
        self.over = Event()
        self.exit_code = KILLED
        Thread(target=self._wait, name="end of run", daemon=True).start()

    def _wait(self) -> None:
        with suppress(ValueError):
            self.exit_code = int(sys.stdin.buffer.readline())
        self.over.set()


def outlive_stop_requests() -> None:
    """Ignore signals to all processes of a job, except when the run itself was killed."""
    run = os.getppid()
    signal.signal(signal.SIGTERM, lambda *_: os.getppid() != run and os._exit(STOPPED))


def lock_tracker(run_dir: Path, name: str) -> IO[bytes]:
    """Wait until no other process logs this run; returns the lock file, to be kept open."""
    file = notes_file(run_dir, name).with_suffix(".lock").open("wb")
    # Some filesystems have no locks.
    with suppress(OSError):
        fcntl.lockf(file, fcntl.LOCK_EX)
    return file


def main() -> None:
    """Log a run to one tracker until it ends."""
    lower_priority()
    outlive_stop_requests()
    name: str
    run: TrackedRun
    name, run = pickle.load(sys.stdin.buffer)
    end = RunEnd()
    with lock_tracker(run.run_dir, name):
        follow(build_tracker(name, run), run, end.over, lambda: end.exit_code)


if __name__ == "__main__":
    main()
