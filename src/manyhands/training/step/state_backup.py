"""A copy of everything that a step changes, so that the step can be repeated."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

Tensors = Mapping[Any, Tensor]
"""Tensors by any unique key."""

CPU = torch.device("cpu")
COPIES_THAT_FIT = 4
"""Copies stay on the GPU if so many of them fit: two are made, and a step needs memory too."""


class StateBackup:
    """Tensors as they were when this was made; `find` names them, at any time."""

    @torch.no_grad()
    def __init__(self, find: Callable[[], Tensors]) -> None:
        self.find = find
        tensors = find()
        on_host = not copies_fit(tensors.values())
        self.saved = {
            name: value.to(CPU, copy=True) if on_host else value.clone()
            for name, value in tensors.items()
        }

    @torch.no_grad()
    def restore(self) -> None:
        """Put everything back; an optimizer state that did not exist yet becomes zero."""
        for name, value in self.find().items():
            value.copy_(self.saved.setdefault(name, torch.zeros_like(value)))

    @torch.no_grad()
    def distances(self) -> dict[Any, Tensor]:
        """The norm of the change of every tensor; step counters are skipped."""
        now = self.find()
        # One at a time: the differences of all of them may not fit beside a step.
        return {
            name: torch.linalg.vector_norm(
                now[name] - saved.to(now[name].device), dtype=torch.float64
            )
            for name, saved in self.saved.items()
            if not is_counter(saved)
        }

    def distance(self) -> Tensor:
        """The norm of the change of all tensors together."""
        return total_norm(self.distances())


def total_norm(norms: Mapping[Any, Tensor]) -> Tensor:
    """The norm of all values, from the norms of the tensors."""
    norm: Tensor = torch.linalg.vector_norm(torch.stack(list(norms.values())))
    return norm


def is_counter(value: Tensor) -> bool:
    """Whether a tensor counts steps: a single entry, or several counters in one tensor."""
    return value.ndim == 0 or not value.is_floating_point()


def copies_fit(tensors: Iterable[Tensor]) -> bool:
    """Whether a GPU has the memory for copies of tensors; a CPU always has."""
    on_gpu = [each for each in tensors if each.is_cuda]
    if not on_gpu:
        return True
    needed = sum(each.numel() * each.element_size() for each in on_gpu)
    return COPIES_THAT_FIT * needed <= free_bytes(on_gpu[0].device)


def free_bytes(device: torch.device) -> int:
    """Memory of a GPU that this process can still allocate."""
    free, _ = torch.cuda.mem_get_info(device)
    cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(free + cached)
