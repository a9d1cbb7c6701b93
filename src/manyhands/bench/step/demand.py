"""FLOPs and memory traffic of a step, kernel by kernel."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from manyhands.bench.step.mode import EAGER, with_mode
from manyhands.bench.step.subject import Subject
from manyhands.parallel.world import World
from manyhands.training.assemble import learner_of

aten = torch.ops.aten

ALIKE = {
    aten._scaled_dot_product_flash_attention_for_cpu: aten._scaled_dot_product_flash_attention,
    aten._scaled_dot_product_flash_attention_for_cpu_backward: (
        aten._scaled_dot_product_flash_attention_backward
    ),
}
"""Kernels without a FLOP formula in torch, and equivalent ones."""
OVERWRITING = {aten.copy_, aten.fill_, aten.zero_}
"""In-place operations that do not read their target."""
RESERVING = {aten.empty, aten.empty_like, aten.empty_strided, aten.new_empty}
"""Operations that only allocate."""


class Kernel(NamedTuple):
    """The cost of one operation."""

    flops: int
    """Multiplications and additions of matmuls, convolutions and attention."""
    num_bytes: int
    """Bytes read and written, each tensor once."""


class Demand(TorchDispatchMode):
    """Records every operation of a device."""

    def __init__(self) -> None:
        super().__init__()
        self.kernels: list[Kernel] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        given: dict[str, Any] = dict(kwargs or {})
        made = func(*args, **given)
        num_bytes = bytes_moved(func, arguments_of(func, args, given), made)
        if num_bytes > 0:
            self.kernels.append(Kernel(flops_of(func, args, given, made), num_bytes))
        return made


def demand_of(subject: Subject, world: World) -> list[Kernel]:
    """The kernels of an eager step."""
    config = with_mode(subject.config, EAGER)
    learner, _ = learner_of(config, subject.stats, world, subject.share)
    # Optimizers allocate their state in the first step.
    learner.update(subject.batch, 0)
    demand = Demand()
    with demand:
        learner.update(subject.batch, 1)
    return demand.kernels


def flops_of(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], made: Any) -> int:
    """FLOPs, where torch has a formula."""
    packet = func.overloadpacket
    count: Callable[..., int] | None = flop_registry.get(ALIKE.get(packet, packet))
    return 0 if count is None else int(count(*args, **kwargs, out_val=made))


class Argument(NamedTuple):
    """Tensors of one argument."""

    tensors: list[Tensor]
    is_written: bool


def arguments_of(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[Argument]:
    """All arguments, and whether the operation writes them."""
    named = dict(zip((each.name for each in func._schema.arguments), args, strict=False))
    for each in func._schema.arguments:
        value = kwargs.get(each.name, named.get(each.name))
        is_written = each.alias_info is not None and each.alias_info.is_write
        yield Argument(tensors_in(value), is_written)


def bytes_moved(func: Any, arguments: Iterator[Argument], made: Any) -> int:
    """Bytes that a kernel reads and writes; zero for views."""
    if func.overloadpacket in RESERVING:
        return 0
    given, written = list[Tensor](), list[Tensor]()
    for tensors, is_written in arguments:
        written += tensors if is_written else ()
        given += () if is_written and func.overloadpacket in OVERWRITING else tensors
    places = {place_of(each) for each in (*given, *written)}
    new = [each for each in tensors_in(made) if place_of(each) not in places]
    if not new and not written:
        return 0
    return sum(size_of(each) for each in (*given, *written, *new))


def tensors_in(value: Any) -> list[Tensor]:
    """All tensors in nested values."""
    return [each for each in tree_leaves(value) if isinstance(each, Tensor)]


def place_of(tensor: Tensor) -> int:
    """The identity of a tensor's storage, also for meta tensors."""
    return int(tensor.untyped_storage()._cdata)


def size_of(tensor: Tensor) -> int:
    """Bytes of a tensor in memory; expanded entries count once."""
    return min(tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes())
