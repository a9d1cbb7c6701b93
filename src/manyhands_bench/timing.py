"""Step times."""

import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch


def step_times(update: Callable[[int], None], steps: range, device: torch.device) -> list[float]:
    """Seconds of each step; on a GPU by CUDA events, without synchronization between steps."""
    if device.type != "cuda":
        marks = [time.perf_counter()]
        for step in steps:
            update(step)
            marks.append(time.perf_counter())
        return [end - start for start, end in pairwise(marks)]
    cuda: Any = torch.cuda
    events = [cuda.Event(enable_timing=True) for _ in range(len(steps) + 1)]
    events[0].record()
    for step, event in zip(steps, events[1:], strict=True):
        update(step)
        event.record()
    events[-1].synchronize()
    return [start.elapsed_time(end) / 1e3 for start, end in pairwise(events)]
