"""The process of one tracker: `python -m`, with a request on stdin, then the end of the run."""

import fcntl
import os
import pickle
import select
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import IO

from manyhands.launch.background import lower_priority
from manyhands.observe.trackers.build import build_tracker
from manyhands.observe.trackers.follow import follow
from manyhands.observe.trackers.notes import notes_file
from manyhands.observe.trackers.tracked_run import TrackedRun

STOPPED = 75
KILLED = 1
STDIN = 0
SIZE_BYTES = 8
CODE_BYTES = 16


def request_of(name: str, run: TrackedRun) -> bytes:
    """The request to a tracker's process."""
    request = pickle.dumps((name, run))
    return len(request).to_bytes(SIZE_BYTES) + request


class RunPipe:
    """Standard input, from the process that trains: a request, then the exit code of the run."""

    # Unbuffered, and without a thread: one that reads while the interpreter ends would abort it.
    exit_code = KILLED

    def request(self) -> tuple[str, TrackedRun]:
        """The name of a tracker and the run that it follows."""
        size = int.from_bytes(self._read(SIZE_BYTES))
        request: tuple[str, TrackedRun] = pickle.loads(self._read(size))
        return request

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            chunk = os.read(STDIN, size - len(data))
            if not chunk:
                sys.exit(KILLED)
            data += chunk
        return data

    def ends_within(self, seconds: float) -> bool:
        """Whether the run ends within some seconds; one that is killed leaves no exit code."""
        readable, _, _ = select.select([STDIN], [], [], seconds)
        if readable:
            with suppress(ValueError):
                self.exit_code = int(os.read(STDIN, CODE_BYTES))
        return bool(readable)


def outlive_stop_requests() -> None:
    """Ignore signals to all processes of a job, except when the run itself was killed."""
    run = os.getppid()
    signal.signal(signal.SIGTERM, lambda *_: os.getppid() != run and os._exit(STOPPED))


def lock_tracker(run_dir: Path, name: str) -> IO[bytes]:
    """Wait until no other process logs this run; returns the open lock file."""
    file = notes_file(run_dir, name).with_suffix(".lock").open("wb")
    # Some filesystems have no locks.
    with suppress(OSError):
        fcntl.lockf(file, fcntl.LOCK_EX)
    return file


def main() -> None:
    """Log a run to one tracker until it ends."""
    lower_priority()
    outlive_stop_requests()
    pipe = RunPipe()
    name, run = pipe.request()
    with lock_tracker(run.run_dir, name):
        tracker = build_tracker(name, run)
        follow(tracker, run, pipe.ends_within)
        tracker.finish(pipe.exit_code)


if __name__ == "__main__":
    main()
