"""CUDA side streams."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def aside(device: torch.device) -> Iterator[None]:
    """Submit work to a side stream, ordered after earlier and before later work.

    Tensors of a captured step must not start in the default stream, which cannot be captured.
    """
    if device.type != "cuda":
        yield
        return
    cuda: Any = torch.cuda
    current, side = cuda.current_stream(device), cuda.Stream(device)
    side.wait_stream(current)
    with cuda.stream(side):
        yield
    current.wait_stream(side)
