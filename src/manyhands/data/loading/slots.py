"""Memory for batches that loader processes fill and the rank reads: allocated once, then reused."""

import math
import mmap
import os
import tempfile
import weakref
from contextlib import ExitStack, suppress
from multiprocessing import reduction
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from manyhands.data.batches import ArraySpec

ALIGNMENT = 64  # Arrays begin at multiples of a cache line, which suits every value type
ROW = np.dtype(np.int64)


class Slots:
    """Slots of one block of shared memory, each for the rows of a batch and for its arrays."""

    def __init__(
        self,
        layout: dict[str, ArraySpec],
        num_samples: int,
        num_slots: int,
        descriptor: int | None = None,
    ) -> None:
        self.num_samples = num_samples
        self.num_slots = num_slots
        self._layout = layout
        self._places = _places_of(layout)
        self._descriptor = _anonymous_file() if descriptor is None else descriptor
        self._undo = ExitStack()
        self._undo.callback(os.close, self._descriptor)
        # Slots that are dropped without closing, also at exit, leak nothing.
        self._close = weakref.finalize(self, self._undo.close)
        self._close.atexit = False
        self._rows_bytes = _aligned(num_slots * num_samples * ROW.itemsize)
        self._slot_bytes = batch_bytes(layout)
        self.num_bytes = self._rows_bytes + num_slots * self._slot_bytes
        os.ftruncate(self._descriptor, self.num_bytes)
        self._memory = np.frombuffer(mmap.mmap(self._descriptor, self.num_bytes), np.uint8)

    def rows(self, slot: int) -> np.ndarray:
        """The rows to be read into a slot."""
        start = slot * self.num_samples * ROW.itemsize
        return np.ndarray((self.num_samples,), ROW, self._memory.data, start)

    def arrays(self, slot: int) -> dict[str, np.ndarray]:
        """The arrays of a slot, by key."""
        start = self._rows_bytes + slot * self._slot_bytes
        return {
            key: np.ndarray(
                place.spec.shape, place.spec.dtype, self._memory.data, start + place.start
            )
            for key, place in self._places.items()
        }

    def block(self, slot: int) -> Tensor:
        """The bytes that hold all arrays of a slot."""
        start = self._rows_bytes + slot * self._slot_bytes
        return torch.from_numpy(self._memory[start : start + self._slot_bytes])

    def tensors(self, block: Tensor) -> dict[str, Tensor]:
        """The arrays in the bytes of a slot, or in a copy of them on any device."""
        return {
            key: block[place.start : place.end].view(place.torch_dtype).view(place.spec.shape)
            for key, place in self._places.items()
        }

    def pin(self) -> bool:
        """Page-lock (pin) the memory for asynchronous copies; return whether it worked."""
        if not torch.cuda.is_available():
            return False
        cuda: Any = torch.cuda
        runtime, address = cuda.cudart(), self._memory.ctypes.data
        if int(runtime.cudaHostRegister(address, self.num_bytes, 0)) != 0:
            # CUDA reports the error at the next kernel launch: clear it here.
            with suppress(RuntimeError):
                torch.ones(1, device="cuda").add_(1)
            return False
        self._undo.callback(runtime.cudaHostUnregister, address)
        return True

    def close(self) -> None:
        """Free the memory; views of a slot hold it as long as they live."""
        self._close()
        self._memory = np.empty(0, np.uint8)

    def __reduce__(self) -> tuple[Any, ...]:
        """How the slots reach a process that is being started: as the same memory."""
        descriptor = reduction.DupFd(self._descriptor)
        return _attached, (self._layout, self.num_samples, self.num_slots, descriptor)


class _Place(NamedTuple):
    start: int
    end: int
    spec: ArraySpec
    torch_dtype: torch.dtype


def batch_bytes(layout: dict[str, ArraySpec]) -> int:
    """The memory a batch takes."""
    return sum(_aligned(_size(spec)) for spec in layout.values())


def _places_of(layout: dict[str, ArraySpec]) -> dict[str, _Place]:
    places, start = {}, 0
    for key, spec in layout.items():
        torch_dtype = torch.from_numpy(np.empty(0, spec.dtype)).dtype
        places[key] = _Place(start, start + _size(spec), spec, torch_dtype)
        start += _aligned(_size(spec))
    return places


def _size(spec: ArraySpec) -> int:
    return math.prod(spec.shape) * spec.dtype.itemsize


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _anonymous_file() -> int:
    """A descriptor of memory without a name or, where the system has no such thing, of a file."""
    # Unlike /dev/shm, which is small in containers, such memory is limited by the machine's alone.
    with suppress(AttributeError, OSError):
        return os.memfd_create("manyhands-batches")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _attached(
    layout: dict[str, ArraySpec], num_samples: int, num_slots: int, descriptor: Any
) -> Slots:
    return Slots(layout, num_samples, num_slots, descriptor.detach())
