"""Copy batches out of their slots: to a GPU asynchronously, or into new memory."""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor

from manyhands.data.loading.leases import Lease, Leases
from manyhands.observe.phases import CopyTimer, timed_event
from manyhands.types import Batch

MAX_COPIES = 2  # Copies to a GPU in flight: the next batch and the one after it


class Copy(Protocol):
    """A copy of a batch out of a slot."""

    def is_done(self) -> bool:
        """Whether the slot has been read."""

    def wait(self) -> None:
        """Return when the slot has been read."""

    def hand_over(self) -> Batch:
        """The copy, for work that is submitted from now on."""


def to_device(leases: Leases, device: torch.device, timer: CopyTimer) -> Iterator[Batch]:
    """Batches on the device; CUDA GPUs copy them while they compute."""
    if device.type != "cuda":
        return copied_out(leases, device)
    cuda: Any = torch.cuda
    return copied_ahead(leases, partial(_CudaCopy, cuda.Stream(device), timer))


def copied_out(leases: Leases, device: torch.device) -> Iterator[Batch]:
    """Batches that stay valid when their slots are reused."""
    with leases:
        for lease in leases:
            batch = {
                key: value.to(device, copy=True) if isinstance(value, Tensor) else value
                for key, value in lease.batch_in(lease.block).items()
            }
            lease.release()
            yield batch


def copied_ahead(leases: Leases, start_copy: Callable[[Lease], Copy]) -> Iterator[Batch]:
    """Batches whose copies start ahead; a late one blocks nothing."""
    copies: deque[Copy] = deque()
    lent: deque[tuple[Copy, Lease]] = deque()

    def release(max_lent: int) -> None:
        """Release slots that have been read, and wait for those beyond the number allowed."""
        while lent and (len(lent) > max_lent or lent[0][0].is_done()):
            copy, lease = lent.popleft()
            copy.wait()
            lease.release()

    def begin() -> None:
        release(MAX_COPIES - 1)
        lease = next(leases, None)
        if lease is not None:
            copies.append(start_copy(lease))
            lent.append((copies[-1], lease))

    def wait() -> None:
        for copy, _ in lent:
            copy.wait()

    with leases, ExitStack() as stack:
        # The memory of the slots is freed afterwards.
        stack.callback(wait)
        while True:
            release(MAX_COPIES)
            if not copies:
                begin()
            if len(copies) < MAX_COPIES and leases.is_ready():
                begin()
            if not copies:
                return
            yield copies.popleft().hand_over()


class _CudaCopy:
    """A copy on its own CUDA stream."""

    def __init__(self, stream: torch.cuda.Stream, timer: CopyTimer, lease: Lease) -> None:
        self._lease = lease
        begun, self._copied = timed_event(), timed_event()
        with torch.cuda.stream(stream):
            begun.record()
            self._block = lease.block.to(stream.device, non_blocking=True)
            self._copied.record()
        timer.note(begun, self._copied)

    def is_done(self) -> bool:
        return bool(self._copied.query())

    def wait(self) -> None:
        self._copied.synchronize()

    def hand_over(self) -> Batch:
        """The copy, for work that is submitted to the current stream from now on."""
        current = torch.cuda.current_stream(self._block.device)
        current.wait_event(self._copied)
        # Its memory is not given to another batch before this stream is done with it.
        self._block.record_stream(current)
        return self._lease.batch_in(self._block)
