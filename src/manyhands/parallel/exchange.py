"""Tensors that travel between ranks within a forward or a backward pass; nothing is tracked."""

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
def collectives_of_this_thread() -> Iterator[None]:
    """Let no other thread of this process call a collective for a while."""
    global _owner
    before, _owner = _owner, threading.current_thread()
    try:
        yield
    finally:
        _owner = before


def check_thread() -> None:
    """Raise if this thread may not call a collective.

    Ranks match collectives by their order, which two threads do not have: each rank would wait for
    another one. Autograd runs backward passes of a GPU in threads of its own while the owner waits;
    those are not made by Python.
    """
    if torch.compiler.is_compiling():
        return
    thread, owner = threading.current_thread(), _owner or threading.main_thread()
    if thread is not owner and not isinstance(thread, threading._DummyThread):
        raise RuntimeError(
            f"thread {thread.name!r} called a collective, which only {owner.name!r} may: ranks "
            "would deadlock. Use World.watch.channel in a background thread"
        )


@contextmanager
def apart() -> Iterator[None]:
    """Let this rank compute by itself for a while, as if there were no others.

    What it then does may fail without leaving anyone waiting for it.
    """
    global _is_apart
    _is_apart = True
    try:
        yield
    finally:
        _is_apart = False


def is_apart() -> bool:
    """Whether this rank computes by itself."""
    return _is_apart


def num_ranks() -> int:
    """How many ranks compute together; one where no group was formed."""
    return dist.get_world_size() if dist.is_initialized() else 1


def stack_over_ranks(row: Tensor) -> Tensor:
    """Collective. The rows of all ranks, which have one length, by rank.

    A rank that computes by itself has its own row in place of every other.
    """
    if _is_apart:
        return row.expand(num_ranks(), -1).contiguous()
    check_thread()
    rows = row.new_empty(num_ranks(), len(row))
    getattr(dist, _GATHER)(rows.view(-1), row)
    return rows


def sum_over_ranks(value: Tensor) -> Tensor:
    """Collective. The sum of all ranks' tensors, which have one shape; the own one if apart."""
    check_thread()
    total = value.clone()
    if not _is_apart:
        dist.all_reduce(total)
    return total
