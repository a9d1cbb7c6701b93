"""Where the time of an update goes.

Nothing is hooked into the update. Forward and backward pass are timed by a loop that makes no
updates; whatever a whole update takes beyond them is the optimizer's: clipping, the step, the
moving average and its bookkeeping.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch

from manyhands.bench.step.subject import Subject, autocast_of, first_samples
from manyhands.parallel.world import World
from manyhands.policies.policy import Policy

NUM_TRIALS = 10
CLOCK_HZ = 2e9
"""No GPU runs much faster, so that a pause is at least as long as it is meant to be."""
PAUSE = 2.0
"""Pauses of a GPU last so many times as long as the submission they hide."""


@dataclass(frozen=True)
class Passes:
    """Medians of the two passes through a network."""

    forward_s: float
    backward_s: float


@dataclass(frozen=True)
class Submission:
    """Medians of an update that begins with nothing to do."""

    host_s: float
    """Until update() returned."""
    device_s: float
    """What the device took, with all work there before it began."""


def passes_of(policy: Policy, subject: Subject, world: World) -> Passes:
    """Time both passes over the batch of an update, all of its micro-batches together."""
    share = subject.share
    batch = first_samples(subject.batch, share.most_per_part)
    forward, backward = [], []
    for number in range(1 + NUM_TRIALS):
        marks = [mark(world.device)]
        with autocast_of(world):
            loss, _ = policy.training_loss(batch)
        marks.append(mark(world.device))
        torch.autograd.backward(loss)
        marks.append(mark(world.device))
        policy.network.zero_grad(set_to_none=True)
        # The first finds kernels, which none of the others has to.
        if number > 0:
            forward.append((marks[0], marks[1]))
            backward.append((marks[1], marks[2]))
    wait_for(world.device)
    parts = share.samples_per_rank / share.most_per_part
    return Passes(parts * median_s(forward), parts * median_s(backward))


def submission_of(update: Callable[[int], None], first: int, device: torch.device) -> Submission:
    """Time what the host and what a GPU has to do with an update, apart from each other."""
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
    """How long the host takes to submit an update to a GPU that has nothing else to do."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    update(step)
    return time.perf_counter() - start


def mark(device: torch.device) -> Any:
    """A moment, as the device counts time."""
    if device.type != "cuda":
        return time.perf_counter()
    cuda: Any = torch.cuda
    event = cuda.Event(enable_timing=True)
    event.record()
    return event


def median_s(spans: list[tuple[Any, Any]]) -> float:
    """The median of what lies between moments, once they have passed."""
    if isinstance(spans[0][0], float):
        return float(median(end - start for start, end in spans))
    return float(median(start.elapsed_time(end) for start, end in spans)) / 1e3


def wait_for(device: torch.device) -> None:
    """Return when a device has nothing to do."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
