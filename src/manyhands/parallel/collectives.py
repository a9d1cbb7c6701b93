"""Collectives within forward and backward passes, without autograd."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import Tensor

# Torch 2.13 gives it this name, and warns about the other.
_GATHER = "all_gather_single" if hasattr(dist, "all_gather_single") else "all_gather_into_tensor"


_is_apart = False
_owner: threading.Thread | None = None


@contextmanager
def owning_collectives() -> Iterator[None]:
    """Allow collectives only in this thread inside the block."""
    global _owner
    before, _owner = _owner, threading.current_thread()
    try:
        yield
    finally:
        _owner = before


def check_thread() -> None:
    """Raise if this thread may not call a collective."""
    # Ranks match collectives by their order, which two threads do not have: they would deadlock.
    # Autograd runs backward passes of a GPU in threads that Python did not create, while the owner
    # waits.
    if torch.compiler.is_compiling():
        return
    thread, owner = threading.current_thread(), _owner or threading.main_thread()
    if thread is not owner and not isinstance(thread, threading._DummyThread):
        raise RuntimeError(
            f"thread {thread.name!r} called a collective, which only {owner.name!r} may: ranks "
            "would deadlock. Use World.watch.channel in a background thread"
        )


@contextmanager
def without_communication() -> Iterator[None]:
    """Compute without communication inside the block, so that a failure blocks no other rank."""
    global _is_apart
    _is_apart = True
    try:
        yield
    finally:
        _is_apart = False


def is_local() -> bool:
    """Whether this rank computes without communication."""
    return _is_apart


def num_ranks() -> int:
    """The world size; one without a process group."""
    return dist.get_world_size() if dist.is_initialized() else 1


def all_gather_rows(row: Tensor) -> Tensor:
    """Collective. All-gather rows of equal length, by rank."""
    # Without communication, its own row replaces every other.
    if _is_apart:
        return row.expand(num_ranks(), -1).contiguous()
    check_thread()
    rows = row.new_empty(num_ranks(), len(row))
    getattr(dist, _GATHER)(rows.view(-1), row)
    return rows


def all_reduce_sum(value: Tensor) -> Tensor:
    """Collective. All-reduce: the sum over ranks; its own tensor without communication."""
    check_thread()
    total = value.clone()
    if not _is_apart:
        dist.all_reduce(total)
    return total


def even_slice(length: int, number: int, num_micro_batches: int) -> slice:
    """One even slice; the first ones are longer by one if the length does not divide."""
    shortest, num_longer = divmod(length, num_micro_batches)
    start = number * shortest + min(number, num_longer)
    return slice(start, start + shortest + (number < num_longer))
