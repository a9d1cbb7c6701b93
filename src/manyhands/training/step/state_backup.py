"""A copy of everything that a step changes, so that the step can be repeated."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from manyhands.policies.vision.norms import FrozenBatchNorm

Tensors = Mapping[Any, Tensor]
"""Tensors by any unique key."""

CPU = torch.device("cpu")
COPIES_THAT_FIT = 4
"""Copies stay on the GPU if so many of them fit: two are made, and a step needs memory too."""


class StateBackup:
    """Copies of tensors; `find` returns the current tensors by name at any time."""

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
        """Restore everything; optimizer state that did not exist yet becomes zero."""
        for name, value in self.find().items():
            value.copy_(self.saved.setdefault(name, torch.zeros_like(value)))

    @torch.no_grad()
    def distances(self) -> dict[Any, Tensor]:
        """The norm of the change of every tensor; step counters are skipped."""
        now = self.find()
        # One at a time: the differences of all tensors may not fit into memory during a step.
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


# A non-finite step must not change them either. Only the device knows whether a step is finite, so
# values are saved before each step and selected on the device after it.
class Buffers:
    """The buffers of a network, which can be restored."""

    def __init__(self, network: nn.Module) -> None:
        # A module may replace the tensor of a buffer, so buffers are found by name.
        self._places = [
            (module, name)
            for module in network.modules()
            if not isinstance(module, FrozenBatchNorm)
            for name, _ in module.named_buffers(recurse=False)
        ]
        self._kept: list[Tensor] = []

    @property
    def tensors(self) -> list[Tensor]:
        """The current buffers."""
        return [getattr(module, name) for module, name in self._places]

    @torch.no_grad()
    def keep(self) -> None:
        """Save the current values."""
        self._kept = [_joined(group) for group in self._groups()]

    @torch.no_grad()
    def restore_unless(self, is_sound: Tensor) -> None:
        """Restore the saved values, unless the step was finite."""
        for group, kept in zip(self._groups(), self._kept, strict=True):
            chosen = torch.where(is_sound.to(kept.device), _joined(group), kept)
            parts = chosen.split_with_sizes([each.numel() for each in group])
            torch._foreach_copy_(
                group, [part.view_as(each) for part, each in zip(parts, group, strict=True)]
            )

    def _groups(self) -> list[list[Tensor]]:
        """Buffers grouped by dtype and device, for batched copies."""
        groups = defaultdict(list)
        for module, name in self._places:
            buffer: Tensor = getattr(module, name)
            groups[buffer.dtype, buffer.device].append(buffer)
        return list(groups.values())


def _joined(group: list[Tensor]) -> Tensor:
    return torch.cat([buffer.flatten() for buffer in group])
