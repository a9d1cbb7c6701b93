"""Step times in one mode."""

import resource
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from manyhands.config.train import TrainConfig
from manyhands.errors import EnvironmentFault
from manyhands.parallel.world import World
from manyhands.training.setup.assemble import build_learner
from manyhands.training.step.learner import Learner
from manyhands_bench.config import BenchStepConfig
from manyhands_bench.step.phases import passes_of, submission_of, wait_for
from manyhands_bench.step.subject import Subject
from manyhands_bench.timing import step_times

UNIT = 1 if sys.platform == "darwin" else 1024
"""Bytes per unit of ru_maxrss."""


def forget_peak(device: torch.device) -> None:
    """Reset the peak, where the device supports it."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)


def peak_bytes(device: torch.device) -> int:
    """Peak bytes of tensors on a GPU since the reset; on a CPU of this process ever."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return UNIT * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


EAGER = "eager"


def modes_of(bench: BenchStepConfig, config: TrainConfig, device: torch.device) -> list[str]:
    """The modes to measure; the first is the main one."""
    run_mode = config.step.mode
    modes = bench.compare or [run_mode]
    if device.type == "cuda":
        # The mode of the run comes first.
        return sorted(modes, key=lambda mode: mode != run_mode)
    if modes not in ([run_mode], [EAGER]):
        raise EnvironmentFault(
            f"--compare={bench.compare} needs a GPU: on the CPU every mode is {EAGER}"
        )
    return [EAGER]


def with_mode(config: TrainConfig, mode: str) -> TrainConfig:
    """The same run in another mode."""
    return replace(config, step=replace(config.step, mode=mode))


GIB = 1024**3


@dataclass(frozen=True, kw_only=True)
class Row:
    """The speed of steps; None where not measured or not meaningful."""

    mode: str
    precision: str
    median_ms: float
    p10_ms: float
    p90_ms: float
    samples_per_s: float
    peak_memory_gib: float
    setup_s: float
    """From the first call of update() until the device was idle."""
    tflops: float | None = None
    mfu: float | None = None
    """Fraction of the device's peak."""
    host_ms: float | None = None
    """Until update() has returned, on an idle GPU."""
    device_ms: float | None = None
    """GPU time without waiting for the host."""
    forward_ms: float | None = None
    backward_ms: float | None = None
    optimizer_ms: float | None = None
    """The rest of a step."""
    notes: list[str] = field(default_factory=list)
    """Messages about the mode, such as a fallback."""


@dataclass(frozen=True, kw_only=True)
class Timed:
    """The measurements of a row."""

    step_s: Sequence[float]
    peak_bytes: int
    setup_s: float


def measured_row(
    mode: str, subject: Subject, bench: BenchStepConfig, world: World
) -> tuple[Row, Learner]:
    """Time steps in a mode; return the row and the learner."""
    device = world.device
    world.free_memory()
    forget_peak(device)
    config = with_mode(subject.config, mode)
    learner, _ = build_learner(config, subject.stats, world, subject.split)

    def update(step: int) -> None:
        learner.train_step(subject.batch, step)

    timed = timed_updates(update, bench, device)
    row = row_of(learner.mode, world.precision, timed, subject.split.samples_per_step)
    if device.type == "cuda":
        submission = submission_of(update, 1 + bench.warm_up + bench.num_steps, device)
        row = replace(row, host_ms=1e3 * submission.host_s, device_ms=1e3 * submission.device_s)
    if learner.mode == EAGER:
        row = with_passes(row, learner, subject, world)
    return replace(row, notes=learner.messages()), learner


def timed_updates(
    update: Callable[[int], None], bench: BenchStepConfig, device: torch.device
) -> Timed:
    """Time the first step, and those after the warm-up."""
    started = time.perf_counter()
    update(0)
    wait_for(device)
    setup_s = time.perf_counter() - started
    first = 1 + bench.warm_up
    step_times(update, range(1, first), device)
    times = step_times(update, range(first, first + bench.num_steps), device)
    return Timed(step_s=times, peak_bytes=peak_bytes(device), setup_s=setup_s)


def row_of(mode: str, precision: str, timed: Timed, num_samples: int) -> Row:
    """The row of timed steps."""
    low, middle, high = np.percentile(timed.step_s, (10, 50, 90)).tolist()
    return Row(
        mode=mode,
        precision=precision,
        median_ms=1e3 * middle,
        p10_ms=1e3 * low,
        p90_ms=1e3 * high,
        samples_per_s=num_samples / middle,
        peak_memory_gib=timed.peak_bytes / GIB,
        setup_s=timed.setup_s,
    )


def with_passes(row: Row, learner: Learner, subject: Subject, world: World) -> Row:
    """The row of eager steps, with their phases."""
    passes = passes_of(learner.policy, subject, world)
    forward_ms, backward_ms = 1e3 * passes.forward_s, 1e3 * passes.backward_s
    # Noise may make the passes alone slower than a step.
    rest_ms = max(0.0, row.median_ms - forward_ms - backward_ms)
    return replace(row, forward_ms=forward_ms, backward_ms=backward_ms, optimizer_ms=rest_ms)


def rated(row: Row, flops_per_update: int, peak_flops_per_s: float | None) -> Row:
    """The row with TFLOPS, and MFU where the peak is known."""
    rate = flops_per_update / (row.median_ms / 1e3)
    mfu = None if peak_flops_per_s is None else rate / peak_flops_per_s
    return replace(row, tflops=rate / 1e12, mfu=mfu)
