"""Copy batches out of their slots: to a GPU asynchronously, or into new memory."""

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor

from manyhands.data.loading.leases import Lease, Leases
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


def to_device(leases: Leases, device: torch.device) -> Iterator[Batch]:
    """Batches on a GPU, copied while it computes; else in memory of their own."""
    if device.type != "cuda":
        return copied_out(leases)
    cuda: Any = torch.cuda
    return copied_ahead(leases, partial(_CudaCopy, cuda.Stream(device)))


def copied_out(leases: Leases) -> Iterator[Batch]:
    """Batches that stay valid when their slots are reused."""
    with leases:
        for lease in leases:
            batch = {
                key: value.clone() if isinstance(value, Tensor) else value
                for key, value in lease.batch_in(lease.block).items()
            }
            lease.release()
            yield batch


def copied_ahead(leases: Leases, start_copy: Callable[[Lease], Copy]) -> Iterator[Batch]:
    """Batches whose copies start ahead; a late one blocks nothing."""
    with leases, _Pipeline(leases, start_copy) as pipeline:
        while (copy := pipeline.next_copy()) is not None:
            yield copy.hand_over()


class _Pipeline:
    """Copies in flight, and the slots that they still read."""

    def __init__(self, leases: Leases, start_copy: Callable[[Lease], Copy]) -> None:
        self._leases = leases
        self._start_copy = start_copy
        self._copies: deque[Copy] = deque()
        self._lent: deque[tuple[Copy, Lease]] = deque()

    def __enter__(self) -> "_Pipeline":
        return self

    def __exit__(self, *_: object) -> None:
        # The memory of the slots is about to be freed.
        for copy, _lease in self._lent:
            copy.wait()

    def next_copy(self) -> Copy | None:
        """The copy of the next batch; the one after it is begun if it has been read."""
        self._release(MAX_COPIES)
        if not self._copies:
            self._begin()
        if len(self._copies) < MAX_COPIES and self._leases.is_ready():
            self._begin()
        return self._copies.popleft() if self._copies else None

    def _begin(self) -> None:
        self._release(MAX_COPIES - 1)
        lease = next(self._leases, None)
        if lease is None:
            return
        copy = self._start_copy(lease)
        self._copies.append(copy)
        self._lent.append((copy, lease))

    def _release(self, max_lent: int) -> None:
        """Release slots that have been read, and wait for those beyond the number allowed."""
        while self._lent and (len(self._lent) > max_lent or self._lent[0][0].is_done()):
            copy, lease = self._lent.popleft()
            copy.wait()
            lease.release()


class _CudaCopy:
    """A copy on its own CUDA stream."""

    def __init__(self, stream: torch.cuda.Stream, lease: Lease) -> None:
        self._lease = lease
        with torch.cuda.stream(stream):
            self._block = lease.block.to(stream.device, non_blocking=True)
            self._copied = stream.record_event()

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
