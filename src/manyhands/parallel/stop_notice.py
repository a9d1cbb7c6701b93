"""Notice of stop requests to any rank, for ranks that work while others wait for them."""

import time
from contextlib import suppress

import torch.distributed as dist

from manyhands.parallel.watchdog import ASKED_TO_STOP
from manyhands.parallel.world import World

POLL_S = 0.2
"""Time between two looks for stop requests of other ranks."""


class StopNotice:
    """Tells whether any rank was asked to stop; not collective, and of one thread."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._is_stopping = False
        self._next_s = 0.0

    def __call__(self) -> bool:
        """Whether any rank was asked to stop; of others it is known within a second."""
        if self._world.is_asked_to_stop:
            self._is_stopping = True
        elif not self._is_stopping and time.monotonic() >= self._next_s:
            # The store is gone if the main rank died, which ends this one too.
            with suppress(dist.DistError):
                self._is_stopping = self._world.watch.has(ASKED_TO_STOP)
            self._next_s = time.monotonic() + POLL_S
        return self._is_stopping
