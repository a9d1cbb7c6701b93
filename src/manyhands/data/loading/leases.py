"""Batches in the order of their rows, each lent out in the slot it was read into."""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from manyhands.data.loading.slots import Slots
from manyhands.data.loading.workers import Objects, Readers, Request
from manyhands.types import Batch


@dataclass(frozen=True)
class Lease:
    """A batch in a slot; after its release, other values appear there."""

    block: Tensor  # The bytes of the slot
    batch_in: Callable[[Tensor], Batch]  # The batch in those bytes, or in a copy on any device
    release: Callable[[], None]


class Leases:
    """Lends batches; at least one slot must be free for the next batch."""

    def __init__(self, rows: Iterator[np.ndarray], slots: Slots, readers: Readers) -> None:
        self._rows = rows
        self._slots = slots
        self._readers = readers
        self._free = deque(range(slots.num_slots))
        self._requested: deque[Request] = deque()
        self._request_ahead()

    def __iter__(self) -> Iterator[Lease]:
        return self

    def __next__(self) -> Lease:
        if not self._requested:
            assert self._free, "every slot is in use"
            raise StopIteration
        try:
            objects = self._readers.answer()
        except BaseException:
            self._stop()
            raise
        return self._lease(self._requested.popleft(), objects)

    def __enter__(self) -> "Leases":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def is_ready(self) -> bool:
        """Whether the next batch is ready."""
        return bool(self._requested) and self._readers.is_ready()

    def close(self) -> None:
        """Stop reading and free the memory; no copy of a slot may be in flight."""
        self._stop()
        self._slots.close()

    def _stop(self) -> None:
        self._readers.close()
        self._requested.clear()
        self._free = deque(range(self._slots.num_slots))
        self._rows = iter(())

    def _request_ahead(self) -> None:
        while self._free and (rows := next(self._rows, None)) is not None:
            request = Request(self._free.popleft(), len(rows))
            self._slots.rows(request.slot)[: request.num_samples] = rows
            self._readers.request(request)
            self._requested.append(request)

    def _lease(self, request: Request, objects: Objects) -> Lease:
        def batch_in(block: Tensor) -> Batch:
            tensors = self._slots.tensors(block)
            cut = {key: tensor[: request.num_samples] for key, tensor in tensors.items()}
            return cut | objects

        def release() -> None:
            self._free.append(request.slot)
            self._request_ahead()

        return Lease(self._slots.block(request.slot), batch_in, release)
