"""Tensors of which every rank may hold a part: made whole, and cut again.

A tensor tells by itself whether it is a part, so that all strategies save and load alike.
"""

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard, TypeVar, cast

import torch
from torch import Tensor

from manyhands.parallel.copies import HostCopies
from manyhands.parallel.exchange import check_thread

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor

Key = TypeVar("Key", bound=Hashable)


class Part(NamedTuple):
    """What one rank holds of a tensor, and where that begins in it."""

    values: Tensor
    offsets: tuple[int, ...]


def is_shard(value: Tensor) -> TypeGuard["DTensor"]:
    """Whether ranks hold a tensor together, a part each."""
    # Told without the class, which takes a second to import and which most runs never need.
    return hasattr(value, "device_mesh")


def held_part(value: Tensor) -> Tensor:
    """What this rank holds of a tensor, in the same memory."""
    return value.to_local() if is_shard(value) else value


def whole(value: Tensor) -> Tensor:
    """Collective where it is a shard. The tensor that all ranks together hold."""
    if not is_shard(value):
        return value
    check_thread()
    # Shards that are kept in the host's memory travel between devices all the same.
    here = value.to(value.device_mesh.device_type)
    assert is_shard(here)
    return here.full_tensor()


@torch.no_grad()
def gathered(values: Mapping[Key, Tensor], is_main: bool, copies: HostCopies) -> dict[Key, Tensor]:
    """Collective. Copies of whole tensors in the main rank's memory; nothing on the others."""
    found = {}
    for name, value in values.items():
        # One at a time: a device need not have room for all of them.
        full = whole(value)
        if is_main:
            found[name] = copies.copy(name, full)
    return found


@torch.no_grad()
def own_parts(values: Mapping[Key, Tensor], is_main: bool, copies: HostCopies) -> dict[Key, Part]:
    """Copies in the host's memory of what this rank has to save: all ranks' parts fit together.

    What several ranks hold alike is saved by the first of them.
    """
    parts = {}
    for name, value in values.items():
        offsets = _first_holders_offsets(value) if is_shard(value) else (0,) * value.ndim
        held = held_part(value)
        if offsets is not None and held.numel() > 0 and (is_main or is_shard(value)):
            parts[name] = Part(copies.copy(name, held), offsets)
    return parts


def _first_holders_offsets(value: "DTensor") -> tuple[int, ...] | None:
    """Where this rank's part of a tensor begins; None if a rank before it holds the same."""
    coordinates = value.device_mesh.get_coordinate()
    assert coordinates is not None
    for place, placement in zip(coordinates, value.placements, strict=True):
        if placement.is_replicate() and place > 0:
            return None
    # Torch does not declare the type of what it offers to checkpoints.
    chunks = cast(Any, value).__create_chunk_list__()
    return tuple(chunks[0].offsets) if chunks else None


def as_held(value: Tensor, like: Tensor) -> Tensor:
    """What this rank holds of a whole tensor that every rank has, cut as another of its shape."""
    if is_shard(value) or not is_shard(like) or value.shape != like.shape:
        return value
    from torch.distributed.tensor import distribute_tensor

    mesh = like.device_mesh
    part = distribute_tensor(value, mesh, like.placements, src_data_rank=None)
    return part.to(like.device)


@torch.no_grad()
def fill(held: Mapping[str, Tensor], weights: Mapping[str, Tensor]) -> None:
    """Copy whole tensors, which every rank has, into others of the same names and shapes."""
    for name, target in held.items():
        target.copy_(as_held(weights[name], target))
