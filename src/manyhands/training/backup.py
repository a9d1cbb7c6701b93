"""What an update changes, put aside so that it can be made again from the same state."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

Tensors = Mapping[Any, Tensor]
"""Tensors by whatever tells them apart."""


class Backup:
    """Tensors as they were when this was made; `find` names them, at any time."""

    @torch.no_grad()
    def __init__(self, find: Callable[[], Tensors]) -> None:
        self._find = find
        self._kept = {name: value.clone() for name, value in find().items()}

    @torch.no_grad()
    def restore(self) -> None:
        """Put everything back; what was not there yet, an optimizer's memory, becomes zero."""
        for name, value in self._find().items():
            value.copy_(self._kept.setdefault(name, torch.zeros_like(value)))

    @torch.no_grad()
    def distance(self) -> Tensor:
        """How far tensors are from what they were, as one norm; counters do not count."""
        now = self._find()
        values = {name: kept for name, kept in self._kept.items() if not is_counter(kept)}
        # One at a time: differences of all of them would not fit beside an update.
        norms = [
            torch.linalg.vector_norm(now[name] - kept, dtype=torch.float64)
            for name, kept in values.items()
        ]
        distance: Tensor = torch.linalg.vector_norm(torch.stack(norms))
        return distance


def is_counter(value: Tensor) -> bool:
    """Whether a tensor counts updates: of one entry, or of several that lie together."""
    return value.ndim == 0 or not value.is_floating_point()
