"""An update recorded as a CUDA graph: all its kernels are submitted at once, from its own tensors.

Whatever the host does in an update is done once, while it is recorded. So a recording holds for
inputs of the same shapes, and for as long as weights and all else it changes stay where they are.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from manyhands.training.update import Compute, Inputs, Measures

ABANDONED: list[torch.cuda.CUDAGraph] = []
"""Recordings without an end: torch goes on asking them whether memory is theirs."""


class Replay:
    """A recorded update."""

    def __init__(self, compute: Compute, inputs: Inputs, read: object = None) -> None:
        self._inputs = own_copy(inputs)
        self._read = read  # What kernels read beside the inputs has to live as long.
        self._graph = torch.cuda.CUDAGraph()
        with recorded(self._graph):
            self._measures = compute(self._inputs)

    @torch.no_grad()
    def __call__(self, inputs: Inputs) -> Measures:
        """Make the update with other inputs; what it measures is not overwritten by the next."""
        targets, sources = tensors_of(self._inputs), tensors_of(inputs)
        for target, source in zip(targets, sources, strict=True):
            target.copy_(source, non_blocking=True)
        self._graph.replay()
        return Measures(
            {name: value.clone() for name, value in self._measures.terms.items()},
            self._measures.grad_norm.clone(),
            self._measures.is_bad.clone(),
        )


@contextmanager
def recorded(graph: torch.cuda.CUDAGraph) -> Iterator[None]:
    """Record what is submitted, and leave the device usable where that cannot be recorded."""
    pool, stream = torch.cuda.graph_pool_handle(), torch.cuda.current_stream()
    try:
        # Other threads may use the device meanwhile: loaders copy batches, ranks are watched.
        with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
            yield
    except RuntimeError:
        if not has_ended(graph):
            abandon(graph, pool, stream)
        raise


def has_ended(graph: torch.cuda.CUDAGraph) -> bool:
    """Whether a recording has come to its end; one that a device refused has not."""
    try:
        graph.pool()
    except RuntimeError:
        return False
    return True


def abandon(graph: torch.cuda.CUDAGraph, pool: tuple[int, int], stream: torch.cuda.Stream) -> None:
    """Do what the end of a recording would have done."""
    torch.cuda.set_stream(stream)
    torch._C._cuda_endAllocateToPool(stream.device_index, pool)
    ABANDONED.append(graph)
    # The device's generator waits for the end of a recording, and any is as good.
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        torch.zeros((), device=stream.device)


def signature_of(inputs: Inputs) -> tuple[Any, ...]:
    """What inputs of one recording have in common."""
    return tuple((each.shape, each.dtype) for each in tensors_of(inputs))


def tensors_of(inputs: Inputs) -> list[Tensor]:
    """All tensors of the inputs, in the order of their names."""
    return [group[name] for group in inputs.groups for name in sorted(group)]


def own_copy(inputs: Inputs) -> Inputs:
    """The inputs in tensors of their own, laid out alike."""
    return inputs.mapped(torch.clone)
