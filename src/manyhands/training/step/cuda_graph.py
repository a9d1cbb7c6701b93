"""A training step captured as a CUDA graph: one launch submits all of its kernels.

The host code of a step runs once, during capture. So a graph is valid for inputs of the same
shapes, as long as the addresses of weights and of all other state stay the same.
"""

from typing import Any

import torch
from torch import Tensor

from manyhands.parallel.cuda import capturing
from manyhands.training.step.train_step import StepFunction, StepInputs, StepMetrics


class CudaGraph:
    """A captured step."""

    def __init__(self, compute: StepFunction, inputs: StepInputs, read: object = None) -> None:
        self._inputs = inputs.mapped(torch.clone)
        self._read = read  # Tensors that kernels read must live as long as the graph.
        self._graph = torch.cuda.CUDAGraph()
        with capturing(self._graph):
            self._measures = compute(self._inputs)

    @torch.no_grad()
    def __call__(self, inputs: StepInputs) -> StepMetrics:
        """Replay the graph with other inputs; the next replay does not overwrite its metrics."""
        targets, sources = tensors_of(self._inputs), tensors_of(inputs)
        for target, source in zip(targets, sources, strict=True):
            target.copy_(source, non_blocking=True)
        self._graph.replay()
        return StepMetrics(
            {name: value.clone() for name, value in self._measures.terms.items()},
            self._measures.grad_norm.clone(),
            self._measures.is_bad.clone(),
        )


def input_signature(inputs: StepInputs) -> tuple[Any, ...]:
    """The properties that all inputs of one graph have in common."""
    return tuple((each.shape, each.dtype) for each in tensors_of(inputs))


def tensors_of(inputs: StepInputs) -> list[Tensor]:
    """All tensors of the inputs, in the order of their names."""
    return [group[name] for group in inputs.groups for name in sorted(group)]
