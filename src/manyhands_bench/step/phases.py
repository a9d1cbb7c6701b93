"""The time of a step by phase.

The step has no hooks. A loop without optimizer steps times forward and backward pass; the rest of a
step is the optimizer: clipping, its step, the EMA and bookkeeping.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch

from manyhands.parallel.world import World
from manyhands.policies.policy import Policy
from manyhands_bench.step.subject import Subject, autocast_of, first_samples

NUM_TRIALS = 10
CLOCK_HZ = 2e9
"""An upper bound of GPU clocks, so that a pause is never too short."""
PAUSE = 2.0
"""Length of a GPU pause as a multiple of the submission that it hides."""


@dataclass(frozen=True)
class Passes:
    """Medians of forward and backward pass."""

    forward_s: float
    backward_s: float


@dataclass(frozen=True)
class Submission:
    """Medians of a step on an idle device."""

    host_s: float
    """Until update() returned."""
    device_s: float
    """Device time with all kernels submitted ahead."""


def passes_of(policy: Policy, subject: Subject, world: World) -> Passes:
    """Time both passes over the batch of a step, all micro-batches together."""
    share = subject.split
    batch = first_samples(subject.batch, share.micro_batch_size)
    forward, backward = [], []
    for number in range(1 + NUM_TRIALS):
        marks = [mark(world.device)]
        with autocast_of(world):
            loss, _ = policy.training_loss(batch)
        marks.append(mark(world.device))
        torch.autograd.backward(loss)
        marks.append(mark(world.device))
        policy.network.zero_grad(set_to_none=True)
        # The first one includes the choice of kernels.
        if number > 0:
            forward.append((marks[0], marks[1]))
            backward.append((marks[1], marks[2]))
    wait_for(world.device)
    parts = share.samples_per_rank / share.micro_batch_size
    return Passes(parts * median_s(forward), parts * median_s(backward))


def submission_of(update: Callable[[int], None], first: int, device: torch.device) -> Submission:
    """Time the host work and the GPU work of a step separately."""
    host = [host_s(update, step) for step in range(first, first + NUM_TRIALS)]
    pause = int(PAUSE * median(host) * CLOCK_HZ)
    cuda: Any = torch.cuda
    spans = []
    for step in range(first + NUM_TRIALS, first + 2 * NUM_TRIALS):
        cuda.synchronize()
        cuda._sleep(pause)
        start = mark(device)
        update(step)
        spans.append((start, mark(device)))
    wait_for(device)
    return Submission(median(host), median_s(spans))


def host_s(update: Callable[[int], None], step: int) -> float:
    """Host time to submit a step to an idle GPU."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    update(step)
    return time.perf_counter() - start


def mark(device: torch.device) -> Any:
    """A time stamp of the device."""
    if device.type != "cuda":
        return time.perf_counter()
    cuda: Any = torch.cuda
    event = cuda.Event(enable_timing=True)
    event.record()
    return event


def median_s(spans: list[tuple[Any, Any]]) -> float:
    """The median duration between time stamps."""
    if isinstance(spans[0][0], float):
        return float(median(end - start for start, end in spans))
    return float(median(start.elapsed_time(end) for start, end in spans)) / 1e3


def wait_for(device: torch.device) -> None:
    """Wait until a device is idle."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
