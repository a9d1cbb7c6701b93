"""Polls all ranks for a stop request about twice a second, however long a step takes.

A poll is a collective, so all ranks must call it after the same step. Each poll therefore
gathers how long steps took on every rank, and all compute the next poll from the same values.
"""

import time

import torch

from manyhands.parallel.world import World

PERIOD_S = 0.5
"""Time between two polls. An all-gather over gloo takes about a millisecond."""
MAX_STEPS = 100
"""Steps between two polls at most: steps may become slower before the next one."""
MAX_GROWTH = 2
"""How much longer an interval may be than the one before it."""


class StopPoll:
    """Polls all ranks periodically for a stop request."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._interval = 1
        self._num_steps = 0
        self._since = time.monotonic()

    def after_step(self, must_ask: bool = False) -> bool:
        """Collective. Whether to stop after this step; False where ranks do not poll.

        All ranks must agree on `must_ask`.
        """
        # Counts calls: after a rollback the numbers of steps start again from a smaller one.
        self._num_steps += 1
        if self._num_steps < self._interval and not must_ask:
            return False
        wait_for_device(self._world.device)
        now = time.monotonic()
        step_s = (now - self._since) / self._num_steps
        answers = self._world.gather((self._world.is_asked_to_stop, step_s))
        self._interval = next_interval(self._interval, max(seconds for _, seconds in answers))
        self._num_steps, self._since = 0, now
        return any(is_asked for is_asked, _ in answers)


def next_interval(interval: int, step_s: float) -> int:
    """Steps until the next poll, after an interval in which a step took so long."""
    in_time = int(PERIOD_S / step_s) if step_s > 0 else MAX_STEPS
    return max(1, min(in_time, MAX_GROWTH * interval, MAX_STEPS))


def wait_for_device(device: torch.device) -> None:
    """Wait until the device has finished all steps so far.

    The host may be many steps ahead of it, and a checkpoint has to wait for all of them.
    """
    if device.type == "cuda":
        torch.cuda.synchronize(device)
