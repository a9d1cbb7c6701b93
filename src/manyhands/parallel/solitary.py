"""Sharded networks that a rank tries out by itself: memory is used as ever, nothing travels."""

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule


class Silence:
    """Stands for an exchange of weights or gradients; what others would have sent is zero."""

    def allocate(self, size: Sequence[int], *, dtype: torch.dtype, device: torch.device) -> Tensor:
        """Room for what is exchanged."""
        return torch.empty(*size, dtype=dtype, device=device)

    def __call__(self, output_tensor: Tensor, input_tensor: Tensor, **_: object) -> None:
        output_tensor.zero_()


def keep_apart(network: nn.Module) -> None:
    """Let a sharded network compute without any other rank; its results mean nothing then."""
    for module in network.modules():
        if isinstance(module, FSDPModule):
            # Torch types these by classes that it does not publish.
            unit = cast(Any, module)
            unit.set_custom_all_gather(Silence())
            unit.set_custom_reduce_scatter(Silence())
