"""Tensors that travel between ranks within a forward or a backward pass; nothing is tracked."""

import torch.distributed as dist
from torch import Tensor

# Torch 2.13 gives it this name, and warns about the other.
_GATHER = "all_gather_single" if hasattr(dist, "all_gather_single") else "all_gather_into_tensor"


def num_ranks() -> int:
    """How many ranks compute together; one where no group was formed."""
    return dist.get_world_size() if dist.is_initialized() else 1


def stack_over_ranks(row: Tensor) -> Tensor:
    """Collective. The rows of all ranks, which have one length, by rank."""
    rows = row.new_empty(num_ranks(), len(row))
    getattr(dist, _GATHER)(rows.view(-1), row)
    return rows


def sum_over_ranks(value: Tensor) -> Tensor:
    """Collective. The sum of all ranks' tensors, which have one shape."""
    total = value.clone()
    dist.all_reduce(total)
    return total
