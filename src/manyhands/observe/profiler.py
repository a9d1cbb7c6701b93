"""Profiles some steps: a trace of torch's profiler and, on a GPU, a snapshot of its memory."""

import pickle
from collections.abc import Callable
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

FOLDER = "profile"
MAX_EVENTS = 1_000_000
"""Allocations that a memory snapshot remembers."""


class StepProfiler:
    """Profiles a range of steps of one rank."""

    def __init__(
        self,
        run_dir: Path,
        steps: range,
        rank: int,
        device: torch.device,
        log: Callable[[str], None],
    ) -> None:
        self._folder = run_dir / FOLDER
        self._steps = steps
        self._rank = rank
        self._is_gpu = device.type == "cuda"
        self._log = log
        self._profile: profile | None = None
        self._first: int | None = None
        self._last = 0

    def before(self, step: int) -> None:
        """Begin before the first step in the range, once, and end after its last."""
        if step >= self._steps.stop:
            self.close()
        elif step in self._steps:
            # A run that rolls back does some steps again.
            if self._first is None:
                self._first = step
                self._begin()
            self._last = max(step, self._last)

    def close(self) -> None:
        """Write the files of a profile that is not complete, or do nothing."""
        if self._profile is None:
            return
        if self._is_gpu:
            torch.cuda.synchronize()
        self._profile.stop()
        try:
            self._write(self._profile)
        except OSError as error:
            self._log(f"WARNING: the profile could not be written to {self._folder}: {error}")
        finally:
            self._profile = None
            if self._is_gpu:
                torch.cuda.memory._record_memory_history(enabled=None)

    def _begin(self) -> None:
        activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if self._is_gpu else [])]
        self._profile = profile(activities=activities, record_shapes=True, profile_memory=True)
        if self._is_gpu:
            torch.cuda.memory._record_memory_history(max_entries=MAX_EVENTS)
        self._profile.start()

    def _write(self, found: profile) -> None:
        self._folder.mkdir(exist_ok=True)
        found.export_chrome_trace(str(self._folder / f"trace-rank-{self._rank:02d}.json.gz"))
        if self._is_gpu:
            file = self._folder / f"memory-rank-{self._rank:02d}.pickle"
            with file.open("wb") as snapshot:
                pickle.dump(torch.cuda.memory._snapshot(), snapshot)
        steps = f"steps {self._first} to {self._last}"
        self._log(f"Profile of {steps}: {self._folder}; open traces with Perfetto")


class NoProfiler:
    """Profiles nothing."""

    def before(self, step: int) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""
