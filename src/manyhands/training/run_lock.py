"""Run lock: one run per run directory, held until its main process ends."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from manyhands.config.runs.run_dir import LOCK, unwritable_run_dir
from manyhands.config.runs.run_state import folder_in_use, here
from manyhands.data.locks import warn_of_no_locks
from manyhands.parallel.world import World

LEASE_S = 120.0  # How long a filesystem may hold locks of a lost machine; NFS usually takes 90 s.
POLL_S = 0.5


@contextmanager
def locked_run_dir(run_dir: Path, world: World) -> Iterator[Path]:
    """Collective. Hold the lock of a run directory."""
    claim = RunLock(run_dir)
    world.on_main(claim.take)
    try:
        yield run_dir
    finally:
        claim.give_up()


class RunLock:
    """A lock file with the name of its holder."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._made = [path for path in (run_dir, *run_dir.parents) if not path.exists()]
        self._file: BinaryIO | None = None

    def take(self) -> None:
        """Create and lock the directory; raises if another run holds it."""
        deadline = time.monotonic() + LEASE_S
        while (holder := self._taken_by()) is not None:
            if holder.endswith(here()) or time.monotonic() > deadline:
                raise folder_in_use(self._run_dir, holder)
            time.sleep(POLL_S)
        self._write_holder(f"process {os.getpid()} {here()}")

    def _taken_by(self) -> str | None:
        """Lock the file; returns the holder if another process has it."""
        try:
            self._run_dir.mkdir(parents=True, exist_ok=True)
            file = (self._run_dir / LOCK).open("ab+", buffering=0)
        except OSError as error:
            raise unwritable_run_dir(self._run_dir, error) from None
        try:
            # Not flock: loader processes may inherit that one, and outlive the run.
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            with file:
                file.seek(0)
                return file.read().decode()
        except OSError as error:
            # Some filesystems have no locks; there users must keep runs apart.
            warn_of_no_locks(self._run_dir, error)
        self._file = file
        return None

    def give_up(self) -> None:
        """Release the lock; a run that wrote nothing removes its folder."""
        if self._file is None:
            return
        self._write_holder("")
        with suppress(OSError):
            if [*self._run_dir.iterdir()] == [self._run_dir / LOCK]:
                (self._run_dir / LOCK).unlink()
            for folder in self._made:
                folder.rmdir()
        self._file.close()

    def _write_holder(self, holder: str) -> None:
        assert self._file is not None
        # A full disk must not end a run: the lock works without the text.
        with suppress(OSError):
            self._file.truncate(0)
            self._file.write(holder.encode())
