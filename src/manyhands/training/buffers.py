"""Buffers that forward passes change: running statistics, batch counters.

A non-finite step must not change them either. Only the device knows whether a step is finite, so
values are saved before each step and selected on the device after it.
"""

from collections import defaultdict

import torch
from torch import Tensor, nn

from manyhands.policies.vision.norms import FrozenBatchNorm


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
    def put_back_unless(self, is_sound: Tensor) -> None:
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
