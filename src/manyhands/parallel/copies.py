"""Copies of tensors in the host's memory, made in the same places again and again.

Fresh memory costs more than the copy: the system hands it out page by page, which takes ten times
as long as filling memory that is already there.
"""

from collections.abc import Hashable

import torch
from torch import Tensor


class HostCopies:
    """Copies of tensors by name; each stays as it is until the next of its name is made."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, Tensor] = {}

    @torch.no_grad()
    def copy(self, name: Hashable, value: Tensor) -> Tensor:
        """A copy that lies in one piece, in the order of its places."""
        kept = self._kept.get(name)
        if kept is None or (kept.shape, kept.dtype) != (value.shape, value.dtype):
            kept = self._kept[name] = _host_memory_for(value)
        return kept.copy_(value)


def _host_memory_for(value: Tensor) -> Tensor:
    # A GPU copies into pinned memory several times as fast as into pageable memory.
    try:
        return torch.empty(value.shape, dtype=value.dtype, pin_memory=value.is_cuda)
    except RuntimeError:
        # The system may allow no more memory to be pinned; a slow copy is better than none.
        return torch.empty(value.shape, dtype=value.dtype)
