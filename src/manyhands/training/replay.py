"""An update recorded as a CUDA graph: all its kernels are submitted at once, from its own tensors.

Whatever the host does in an update is done once, while it is recorded. So a recording holds for
inputs of the same shapes, and for as long as weights and all else it changes stay where they are.
"""

from typing import Any

import torch
from torch import Tensor

from manyhands.training.update import Compute, Inputs, Measures


class Replay:
    """A recorded update."""

    def __init__(self, compute: Compute, inputs: Inputs) -> None:
        self._inputs = own_copy(inputs)
        self._graph = torch.cuda.CUDAGraph()
        # Other threads may use the device meanwhile: loaders copy batches, ranks are watched.
        with torch.cuda.graph(self._graph, capture_error_mode="thread_local"):
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


def signature_of(inputs: Inputs) -> tuple[Any, ...]:
    """What inputs of one recording have in common."""
    return tuple((each.shape, each.dtype) for each in tensors_of(inputs))


def tensors_of(inputs: Inputs) -> list[Tensor]:
    """All tensors of the inputs, in the order of their names."""
    return [group[name] for group in inputs.groups for name in sorted(group)]


def own_copy(inputs: Inputs) -> Inputs:
    """The inputs in tensors of their own, laid out alike."""
    return inputs.mapped(torch.clone)
