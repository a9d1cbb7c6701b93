"""The life of a run: started, switched, stopped, resumed, killed, resumed, stopped."""

import math
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from statistics import median

from run_job import Job
from soak_recipes import Recipe
from soak_start import (
    CACHED,
    SWITCHED,
    TRYING,
    Row,
    Start,
    full_speed_s,
    pause_s,
    samples_per_minute,
    steps_per_s,
)

from manyhands.observe.jsonl import read_rows
from manyhands.training.step.verdict import FOLDER

DEADLINE_S = 1800.0
"""How long a start may take beyond the time that it is to train."""
AFTER_CHECKPOINT_S = 2.0
ACCEPTED = ("of GPU memory", "out of memory")
"""Reasons not to switch that are no fault: neighbors have the memory."""
NUM_TRIAL_LINES = 30
MAX_GROWTH = 0.05
MAX_GROWTH_BYTES = 128 << 20
MIN_RESUMED_SPEED = 0.5
"""Speed after a resume relative to that before it, of a run that is alone on its GPU."""


@dataclass(frozen=True)
class Plan:
    """How long a run trains between two events."""

    train_s: float = 15.0
    """At least so long after the switch, and after each resume."""
    first_s: float = 0.0
    """At least so long before the run is stopped for the first time."""
    resumed_s: float = 0.0
    """At least so long between the first resume and the kill."""
    device: str = "cuda"
    has_neighbors: bool = False
    """Whether other runs share the GPU: then speeds are reported, not checked."""


@dataclass
class Result:
    """What came of a recipe; speeds are in steps per second, each the median of its phase."""

    recipe: str
    outcome: str
    before: float | None = None
    during: float | None = None
    after: float | None = None
    resumed: list[float | None] = field(default_factory=list)
    """After the first resume, and after the second."""
    first_step_s: list[float] = field(default_factory=list)
    """From the start of each process to its first logged step."""
    full_speed_s: list[float | None] = field(default_factory=list)
    """From the first logged step after each resume to full speed."""
    switched_s: float | None = None
    """From the first logged step to the switch."""
    trial_s: float | None = None
    pause_s: float | None = None
    """The longest pause between two logged steps around the switch."""
    data_wait: float | None = None
    """Share of the time that steps wait for data after the switch."""
    gpu_gib: float | None = None
    gpu_growth_mib: list[float | None] = field(default_factory=list)
    """Per process, between the first and the second half of its time after the switch."""
    device_growth_mib: list[float | None] = field(default_factory=list)
    """The same of everything on the GPU, other processes included."""
    host_growth_mib: list[float | None] = field(default_factory=list)
    last_step: int | None = None
    last_loss: float | None = None
    samples_per_minute: list[float] = field(default_factory=list)
    seconds: float | None = None


class Life:
    """Leads a recipe through its life in a folder."""

    def __init__(self, recipe: Recipe, folder: Path, plan: Plan, vlm: Path | None = None) -> None:
        self._recipe = recipe
        self._folder = folder
        self._plan = plan
        self._vlm = [f"--policy.vlm_model_name={vlm}"] if recipe.needs_vlm else []
        self._run_dir = folder / "run"
        self._starts: list[Start] = []
        self._faults: list[str] = []
        self.found = Result(recipe.name, "passed")
        """What is known so far."""

    def result(self) -> Result:
        """Live it; raises AssertionError where something is not as it must be."""
        began = time.monotonic()
        self._folder.mkdir(parents=True)
        try:
            self._first()
            self._second()
            self._third()
        finally:
            for start in self._starts:
                start.job.kill()
            self.found.seconds = time.monotonic() - began
        self._check_rows()
        assert not self._faults, "\n".join(self._faults)
        shutil.rmtree(self._run_dir / "checkpoints")
        return self.found

    def _first(self) -> None:
        """Start, switch and stop."""
        flags = [*self._recipe.common, *self._recipe.flags, *self._data(), *self._base()]
        device = f"--policy.device={self._plan.device}"
        start = self._start(*flags, device, f"--output_dir={self._run_dir}")
        start.wait_for_step()
        until = time.monotonic() + self._plan.first_s
        decision = start.wait_for_decision() if self._plan.device != "cpu" else ""
        start.train_for(max(self._plan.train_s, until - time.monotonic()))
        start.stop()
        self._note_first(start, decision)
        if decision:
            self.found.outcome = decision
            self._faults += faults_of_decision(decision, self._folder / "compiled")
        self._note_memory(start, start.time_of(decision) if decision else start.time_of_step())

    def _second(self) -> None:
        """Resume and kill, after at least one further checkpoint."""
        start = self._start(f"--resume={self._run_dir}", f"--save_freq={self._recipe.save_freq}")
        start.wait_for_step()
        since = time.monotonic()
        start.wait_for_checkpoint()
        trained_s = time.monotonic() - since
        left_s = max(self._plan.train_s, self._plan.resumed_s) - trained_s
        start.train_for(max(left_s, AFTER_CHECKPOINT_S))
        start.kill()
        self._note_resumed(start)

    def _third(self) -> None:
        """Resume and stop."""
        start = self._start(f"--resume={self._run_dir}", "--save_freq=0")
        start.wait_for_step()
        start.train_for(self._plan.train_s)
        start.stop()
        self._note_resumed(start)

    def _start(self, *flags: str) -> Start:
        deadline_s = DEADLINE_S + self._plan.first_s + self._plan.resumed_s
        self._starts.append(Start(self._folder, len(self._starts), flags, deadline_s))
        return self._starts[-1]

    def _data(self) -> list[str]:
        """Flags that name the data, which is recorded first."""
        recording = self._recipe.recording
        if recording is None:
            return []
        folders = [self._folder / f"data-{number}" for number in range(self._recipe.num_datasets)]
        roots = [replace(recording, seed=seed).write(root) for seed, root in enumerate(folders)]
        if len(roots) == 1:
            return [f"--dataset.root={roots[0]}"]
        weights = ", ".join(f"{root}: {len(roots) - number}" for number, root in enumerate(roots))
        return [f"--dataset.mix={{{weights}}}"]

    def _base(self) -> list[str]:
        """Flags that name the policy to start from, which is trained for one step first."""
        if not self._recipe.base:
            return self._vlm
        run_dir = self._folder / "base"
        data = f"--dataset.root={self._folder / 'data-0'}"
        flags = [*self._recipe.base, *self._vlm, data, "--steps=1", "--num_workers=0"]
        own = ["--policy.device=cpu", "--launch.num_processes=1", f"--output_dir={run_dir}"]
        program = [sys.executable, "-m", "manyhands", "train"]
        Job([*program, *flags, *own], run_dir, DEADLINE_S).end(0, DEADLINE_S)
        return [f"--policy.path={run_dir}"]

    def _note_first(self, start: Start, decision: str) -> None:
        result, phases = self.found, start.phases
        result.first_step_s.append(start.first_step_s)
        # The first row includes the start, and the capture of the graph.
        result.before = steps_per_s(phases["before"][1:])
        result.during = steps_per_s(phases["during"])
        result.after = steps_per_s(phases["after"])
        result.pause_s = pause_s([*phases["during"], *phases["after"]])
        result.samples_per_minute = samples_per_minute(start.rows)
        began, tried = start.time_of_step(), start.time_of(TRYING)
        decided = start.time_of(decision) if decision else None
        if decided is not None and began is not None and SWITCHED in decision:
            result.switched_s = decided - began
        if decided is not None and tried is not None:
            result.trial_s = decided - tried
        waits = [row["data_wait_share"] for row in phases["after"]]
        result.data_wait = median(waits) if waits else None

    def _note_resumed(self, start: Start) -> None:
        result = self.found
        result.first_step_s.append(start.first_step_s)
        result.resumed.append(steps_per_s(start.rows[1:]))
        result.full_speed_s.append(full_speed_s(start.rows))
        self._note_memory(start, start.time_of_step())
        if not result.outcome.startswith(SWITCHED):
            return
        if start.time_of(CACHED) is None:
            self._faults.append(f"{CACHED!r} was not logged after a resume")
        speed, expected = result.resumed[-1] or 0.0, result.after or 0.0
        if not self._plan.has_neighbors and speed < MIN_RESUMED_SPEED * expected:
            self._faults.append(f"{speed:.1f} steps/s after a resume, {expected:.1f} before it")

    def _note_memory(self, start: Start, since: float | None) -> None:
        """Note how memory grows from a time on, and check that of the GPU."""
        result, samples = self.found, start.samples
        late = samples if since is None else [each for each in samples if each["time"] > since + 1]
        gpu = [each["gpu_bytes"] for each in late if "gpu_bytes" in each]
        device = [each["device_bytes"] for each in late if "device_bytes" in each]
        grown = growth(gpu)
        result.gpu_growth_mib.append(mib(grown))
        result.device_growth_mib.append(mib(growth(device)))
        result.host_growth_mib.append(mib(growth([each["host_bytes"] for each in late])))
        if gpu and result.gpu_gib is None:
            result.gpu_gib = max(gpu) / (1 << 30)
        if grown is not None and grown > max(MAX_GROWTH_BYTES, MAX_GROWTH * max(gpu)):
            start_number = len(result.gpu_growth_mib)
            self._faults.append(f"GPU memory of start {start_number} grows by {mib(grown):.0f} MiB")

    def _check_rows(self) -> None:
        rows = list(read_rows(self._run_dir / "metrics.jsonl"))
        self._faults += faults_of_rows(rows, self._recipe.log_every)
        self.found.last_step, self.found.last_loss = rows[-1]["step"], rows[-1]["loss"]


def faults_of_decision(decision: str, kernels: Path) -> list[str]:
    """Nothing for a run that switched or may stay; otherwise the reason and the trial's logs."""
    if SWITCHED in decision or any(each in decision for each in ACCEPTED):
        return []
    logs = sorted((kernels / FOLDER).glob("*.log"))
    ends = ["\n".join(log.read_text().splitlines()[-NUM_TRIAL_LINES:]) for log in logs]
    return [decision, *(f"{log.name}:\n{end}" for log, end in zip(logs, ends, strict=True))]


def faults_of_rows(rows: Sequence[Row], log_every: int) -> list[str]:
    """Losses that are not finite, and steps that are logged again, out of order or not at all."""
    steps = [row["step"] for row in rows]
    expected = {1, *range(log_every, steps[-1] + 1, log_every)}
    found = {
        "the loss is not finite": [row["step"] for row in rows if not math.isfinite(row["loss"])],
        "logged again": [later for step, later in pairwise(steps) if later <= step],
        "not logged": sorted(expected - {*steps}),
    }
    return [f"{fault} in steps {which}" for fault, which in found.items() if which]


def growth(values: Sequence[int]) -> int | None:
    """How much larger the largest value is in the second half than in the first."""
    half = len(values) // 2
    return max(values[half:]) - max(values[:half]) if half else None


def mib(num_bytes: int | None) -> float | None:
    """Bytes in MiB."""
    return None if num_bytes is None else num_bytes / (1 << 20)
