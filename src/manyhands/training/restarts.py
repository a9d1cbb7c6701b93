"""Restarts a run from its newest checkpoint when one of its processes dies.

Only restarts without progress are counted: a checkpoint newer than the last start resets the count.
So a run survives any number of failures, and a permanent fault ends it.
"""

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from manyhands.config.resolve import choose_output_dir
from manyhands.config.runs.run_dir import newest_intact, saved_at
from manyhands.config.train import AUTO, TrainConfig
from manyhands.errors import Diverged, EnvironmentFault, Stopped, UserError
from manyhands.launch.outcome import INTERRUPTED, Outcome
from manyhands.stop import StopSignal

FINAL = (0, UserError.exit_code, Diverged.exit_code, Stopped.exit_code, INTERRUPTED)
"""Exit codes that a restart would not change."""
MAX_PAUSE_S = 60.0


@dataclass(frozen=True)
class Placement:
    """Where the processes of this machine compute."""

    num_processes: int
    gpus: Sequence[str] | None = None
    """The GPUs they see, named as in CUDA_VISIBLE_DEVICES; None for all."""


@dataclass(frozen=True)
class Start:
    """One start of all processes."""

    places: Placement
    flags: Sequence[str] = ()  # Added to the flags of the run.
    restarts: Sequence[dict[str, Any]] = ()  # Earlier restarts and their reasons, for run.json.


def run_with_restarts(
    config: TrainConfig,
    first: Placement,
    run: Callable[[Start], Outcome],
    places_left: Callable[[], Placement],
    stop: StopSignal,
) -> int:
    """Run processes, restart them as the config allows; returns the last exit code."""
    restarts = Restarts(config, first)
    start = restarts.first()
    while True:
        stop.defer()
        outcome = run(start)
        if not restarts.may_follow(outcome):
            return outcome.code
        stop.raise_if_requested()
        time.sleep(restarts.pause_s)
        start = restarts.next(outcome, places_left())


class Restarts:
    """The starts of one run, one after the other."""

    def __init__(self, config: TrainConfig, first: Placement) -> None:
        self._config = config
        self._first = first
        self._allowed = config.launch.max_restarts
        self._run_dir = choose_output_dir(config, datetime.now())
        self._started_at = time.time()
        self._num_in_vain = 0
        self._record: list[dict[str, Any]] = []
        self._batch_flags: list[str] = []

    @property
    def pause_s(self) -> float:
        """How long to wait before the next start."""
        return min(MAX_PAUSE_S, 2.0 ** (self._num_in_vain - 1))

    def first(self) -> Start:
        """The first start, with the run directory that restarts use."""
        return Start(self._first, [f"--output_dir={self._run_dir}"] if self._allowed else [])

    def may_follow(self, outcome: Outcome) -> bool:
        """Whether to restart processes that ended."""
        if self._allowed == 0 or outcome.code in FINAL or outcome.stop_requested:
            return False
        _, newest_at = self._standing()
        self._num_in_vain = 1 if newest_at > self._started_at else self._num_in_vain + 1
        if self._num_in_vain > self._allowed:
            log(f"giving up: {self._allowed} restarts in a row saved no new checkpoint")
            return False
        log(f"restart {self._num_in_vain} of {self._allowed} in {self.pause_s:.0f} s")
        return True

    def next(self, outcome: Outcome, left: Placement) -> Start:
        """The next start, at the remaining places."""
        step, _ = self._standing()
        places = self._fitting(left)
        dead = outcome.deaths[0] if outcome.deaths else None
        self._record.append(
            {
                "at": datetime.now(UTC).isoformat(),
                "rank": dead and dead.rank,
                "how": dead and dead.how,
                "step": step,
                "num_processes": places.num_processes,
            }
        )
        log(f"resuming from step {step}; number of processes: {places.num_processes}")
        self._started_at = time.time()
        flags = [f"--output_dir={self._run_dir}", f"--resume={AUTO}", *self._batch_flags]
        return Start(places, flags, self._record)

    def _standing(self) -> tuple[int, float]:
        """The step of the newest checkpoint, and when it was saved."""
        newest = newest_intact(self._run_dir)
        return (0, 0.0) if newest is None else (int(newest.name), saved_at(newest))

    def _fitting(self, left: Placement) -> Placement:
        """As many places as the effective batch of the first start can be split over."""
        if left.num_processes == self._first.num_processes:
            return left
        from manyhands.training.setup.batch import split_batch

        num_samples = split_batch(self._config, 0, self._first.num_processes).samples_per_step
        fixed = with_batch(self._config, num_samples)
        for num_processes in range(left.num_processes, 0, -1):
            with suppress(EnvironmentFault):
                split_batch(fixed, 0, num_processes)
                self._batch_flags = batch_flags(fixed)
                return replace(left, num_processes=num_processes)
        return left


def with_batch(config: TrainConfig, num_samples: int) -> TrainConfig:
    """The config with a fixed effective batch, for any number of processes."""
    parts = replace(config.accelerator.gradient_accumulation, steps=1)
    accelerator = replace(config.accelerator, gradient_accumulation=parts)
    return replace(config, global_batch_size=num_samples, accelerator=accelerator)


def batch_flags(config: TrainConfig) -> list[str]:
    """The flags that set the batch sizes."""
    size = "null" if config.batch_size is None else config.batch_size
    parts = config.accelerator.gradient_accumulation.steps
    return [
        f"--global_batch_size={config.global_batch_size}",
        f"--batch_size={size}",
        f"--accelerator.gradient_accumulation.steps={parts}",
    ]


def log(text: str) -> None:
    """Print a message of the launcher."""
    print(f"manyhands: {text}", file=sys.stderr, flush=True)
