"""Copies of tensors in reused host memory.

New memory costs more than the copy: page faults take ten times as long as filling allocated memory.
"""

from collections.abc import Hashable

import torch
from torch import Tensor


class HostBuffers:
    """Copies of tensors by name; each stays valid until the next copy of its name."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, Tensor] = {}

    @torch.no_grad()
    def copy(self, name: Hashable, value: Tensor) -> Tensor:
        """A contiguous copy."""
        kept = self._kept.get(name)
        if kept is None or (kept.shape, kept.dtype) != (value.shape, value.dtype):
            kept = self._kept[name] = _host_memory_for(value)
        return kept.copy_(value)


def _host_memory_for(value: Tensor) -> Tensor:
    # A GPU copies into pinned memory several times as fast as into pageable memory.
    try:
        return torch.empty(value.shape, dtype=value.dtype, pin_memory=value.is_cuda)
    except RuntimeError:
        # The system may not pin more memory; a slow copy is better than none.
        return torch.empty(value.shape, dtype=value.dtype)
