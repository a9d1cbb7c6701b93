"""What others decide about episodes that run: when they end, and when the policy may predict."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

POLL_S = 0.05


def never() -> bool:
    """Never stop early."""
    return False


@dataclass(frozen=True)
class RolloutControl:
    """Episodes run to their ends at full speed unless others decide otherwise."""

    must_stop: Callable[[], bool] = never
    """Asked many times a second: whether to end before all episodes have."""
    predicting: Callable[[], AbstractContextManager[None]] = nullcontext
    """Entered for each prediction."""


@dataclass(frozen=True)
class LimitedUse:
    """Limits the share of the time that predictions take of a GPU that training uses too."""

    share: float
    is_unlimited: Callable[[], bool]
    """Asked many times a second: whether the GPU has become free."""

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Predict, then rest in proportion to the time that it took."""
        start = time.monotonic()
        yield
        now = time.monotonic()
        end = now + (now - start) * (1 / self.share - 1)
        while not self.is_unlimited() and (remaining := end - time.monotonic()) > 0:
            time.sleep(min(POLL_S, remaining))
