"""Tests that runs survive kill -9 at any moment, and measures how long saves block training."""

import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from manyhands_bench.config import CASES, BenchResumeConfig
from manyhands_bench.resume.cases import case_of, record_dataset
from manyhands_bench.resume.delay import Delay, measure_delay
from manyhands_bench.resume.moments import planned_kills
from manyhands_bench.resume.processes import starter
from manyhands_bench.resume.trial import Tally, Trial

OnProgress = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True)
class ResumeResult:
    """The result of all kills."""

    seed: int
    tallies: list[Tally]
    delay: Delay | None
    wall_s: float
    folder: Path | None
    """The folder of the runs; None if removed."""

    @property
    def kills(self) -> int:
        """The number of kills."""
        return sum(tally.kills for tally in self.tallies)

    @property
    def failures(self) -> list[str]:
        """Runs that differ from the uninterrupted one."""
        return [failure for tally in self.tallies for failure in tally.failures]

    def as_json(self) -> dict[str, Any]:
        """The result as JSON."""
        return {
            "kills": self.kills,
            "failures": len(self.failures),
            "async_over_sync": None if self.delay is None else self.delay.async_over_sync,
            "seed": self.seed,
            "wall_s": self.wall_s,
            "cases": [vars(tally) for tally in self.tallies],
            "delay": None if self.delay is None else vars(self.delay),
        }


def bench_resume(bench: BenchResumeConfig, on_progress: OnProgress) -> ResumeResult:
    """Kill runs, and measure saves."""
    started = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="manyhands-resume-")) if bench.folder is None else None
    place = (bench.folder or folder or Path()).absolute()
    place.mkdir(parents=True, exist_ok=True)
    record_dataset(place / "dataset")
    tallies = kill_runs(bench, place, on_progress) if bench.kills else []
    delay = measure_delay(place, bench.saves) if bench.saves else None
    stays = bench.folder is not None or any(tally.failures for tally in tallies)
    if not stays:
        shutil.rmtree(place)
    return ResumeResult(
        seed=bench.seed,
        tallies=tallies,
        delay=delay,
        wall_s=time.monotonic() - started,
        folder=place if stays else None,
    )


def kill_runs(bench: BenchResumeConfig, folder: Path, on_progress: OnProgress) -> list[Tally]:
    """Distribute the kills over the cases."""
    kills, names = planned_kills(bench.seed, bench.kills), bench.cases or CASES
    tallies: list[Tally] = []
    made = 0

    def on_kill() -> None:
        nonlocal made
        made += 1
        on_progress(made, len(kills))

    with starter(folder / "home") as starting:
        for number, name in enumerate(names):
            first, last = (len(kills) * end // len(names) for end in (number, number + 1))
            trial = Trial(case_of(name), folder / "dataset", folder / name, starting, on_kill)
            tallies.append(trial.run(kills[first:last]))
    return tallies
