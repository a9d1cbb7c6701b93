"""Runs a sharded network on one rank: same memory use, no communication."""

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule


class Silence:
    """Replaces a collective of FSDP; the data of other ranks is zero."""

    def allocate(self, size: Sequence[int], *, dtype: torch.dtype, device: torch.device) -> Tensor:
        """Allocate the communication buffer."""
        return torch.empty(*size, dtype=dtype, device=device)

    def __call__(self, output_tensor: Tensor, input_tensor: Tensor, **_: object) -> None:
        output_tensor.zero_()


def keep_apart(network: nn.Module) -> None:
    """Let a sharded network run without other ranks; its results are meaningless then."""
    for module in network.modules():
        if isinstance(module, FSDPModule):
            # Torch types these by classes that it does not publish.
            unit = cast(Any, module)
            unit.set_custom_all_gather(Silence())
            unit.set_custom_reduce_scatter(Silence())
