"""Sharded tensors: gathered to full tensors, and sharded again.

A tensor itself shows whether it is sharded, so that all strategies save and load the same way.
"""

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard, TypeVar, cast

import torch
from torch import Tensor

from manyhands.parallel.collectives import check_thread
from manyhands.parallel.host_buffers import HostBuffers

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor

Key = TypeVar("Key", bound=Hashable)


class TensorShard(NamedTuple):
    """The shard of one rank, and its offsets in the full tensor."""

    values: Tensor
    offsets: tuple[int, ...]


def is_shard(value: Tensor) -> TypeGuard["DTensor"]:
    """Whether a tensor is sharded over ranks."""
    # Without the class, which takes a second to import and which most runs never need.
    return hasattr(value, "device_mesh")


def local_tensor(value: Tensor) -> Tensor:
    """The shard of this rank, in the same memory; a full tensor as it is."""
    return value.to_local() if is_shard(value) else value


def full_tensor(value: Tensor) -> Tensor:
    """Collective for a shard. The full tensor."""
    if not is_shard(value):
        return value
    check_thread()
    # Shards offloaded to host memory are still gathered between devices.
    here = value.to(value.device_mesh.device_type)
    assert is_shard(here)
    return here.full_tensor()


@torch.no_grad()
def gathered(values: Mapping[Key, Tensor], is_main: bool, copies: HostBuffers) -> dict[Key, Tensor]:
    """Collective. Copies of full tensors in host memory of the main rank; empty on the others."""
    found = {}
    for name, value in values.items():
        # One at a time: all of them may not fit into the memory of the device.
        full = full_tensor(value)
        if is_main:
            found[name] = copies.copy(name, full)
    return found


@torch.no_grad()
def local_shards(
    values: Mapping[Key, Tensor], is_main: bool, copies: HostBuffers
) -> dict[Key, TensorShard]:
    """Copies in host memory of the shards that this rank saves."""
    # The first rank that holds a replicated shard saves it.
    parts = {}
    for name, value in values.items():
        offsets = _first_holders_offsets(value) if is_shard(value) else (0,) * value.ndim
        held = local_tensor(value)
        if offsets is not None and held.numel() > 0 and (is_main or is_shard(value)):
            parts[name] = TensorShard(copies.copy(name, held), offsets)
    return parts


def _first_holders_offsets(value: "DTensor") -> tuple[int, ...] | None:
    """Offsets of this rank's shard; None if an earlier rank holds the same shard."""
    coordinates = value.device_mesh.get_coordinate()
    assert coordinates is not None
    for place, placement in zip(coordinates, value.placements, strict=True):
        if placement.is_replicate() and place > 0:
            return None
    # Torch does not declare the types of its checkpoint interface.
    chunks = cast(Any, value).__create_chunk_list__()
    return tuple(chunks[0].offsets) if chunks else None


def shard_like(value: Tensor, like: Tensor) -> Tensor:
    """This rank's shard of a full tensor, sharded like another of its shape."""
    if is_shard(value) or not is_shard(like) or value.shape != like.shape:
        return value
    from torch.distributed.tensor import distribute_tensor

    mesh = like.device_mesh
    part = distribute_tensor(value, mesh, like.placements, src_data_rank=None)
    return part.to(like.device)


@torch.no_grad()
def fill(held: Mapping[str, Tensor], weights: Mapping[str, Tensor]) -> None:
    """Copy full tensors, which every rank has, into tensors of the same names and shapes."""
    for name, target in held.items():
        target.copy_(shard_like(weights[name], target))
