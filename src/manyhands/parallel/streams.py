"""Work on a GPU that is not submitted where all other work is."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def aside(device: torch.device) -> Iterator[None]:
    """Submit work to a stream of its own, after all before it and before all that comes later.

    Whatever a recorded update has to do with must not have begun in the default stream, which
    cannot be recorded.
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
