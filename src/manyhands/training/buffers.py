"""What forward passes change in a network while it is trained: running moments, counts of batches.

An update that is not sound must not leave a trace in them either. Whether it is sound is known to
the device alone, so values are kept before each update and chosen among after it.
"""

from collections import defaultdict

import torch
from torch import Tensor, nn

from manyhands.policies.vision.norms import FrozenBatchNorm


class Buffers:
    """The buffers of a network, which can be put back to where they were."""

    def __init__(self, network: nn.Module) -> None:
        # A module may put another tensor in a buffer's place, hence they are known by name.
        self._places = [
            (module, name)
            for module in network.modules()
            if not isinstance(module, FrozenBatchNorm)
            for name, _ in module.named_buffers(recurse=False)
        ]
        self._kept: list[Tensor] = []

    @property
    def tensors(self) -> list[Tensor]:
        """The buffers as they are."""
        return [getattr(module, name) for module, name in self._places]

    @torch.no_grad()
    def keep(self) -> None:
        """Remember the values as they are."""
        self._kept = [_joined(group) for group in self._groups()]

    @torch.no_grad()
    def put_back_unless(self, is_sound: Tensor) -> None:
        """Return to the values that were kept, unless an update was sound."""
        for group, kept in zip(self._groups(), self._kept, strict=True):
            chosen = torch.where(is_sound.to(kept.device), _joined(group), kept)
            parts = chosen.split_with_sizes([each.numel() for each in group])
            torch._foreach_copy_(
                group, [part.view_as(each) for part, each in zip(parts, group, strict=True)]
            )

    def _groups(self) -> list[list[Tensor]]:
        """The buffers by what can be copied at once."""
        groups = defaultdict(list)
        for module, name in self._places:
            buffer: Tensor = getattr(module, name)
            groups[buffer.dtype, buffer.device].append(buffer)
        return list(groups.values())


def _joined(group: list[Tensor]) -> Tensor:
    return torch.cat([buffer.flatten() for buffer in group])
