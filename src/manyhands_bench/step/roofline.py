"""FLOPs and memory traffic of a step, kernel by kernel."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode, flop_registry

from manyhands.parallel.world import World
from manyhands.training.setup.assemble import build_initial_policy, build_learner
from manyhands_bench.step.row import EAGER, with_mode
from manyhands_bench.step.subject import Subject, first_samples
from manyhands_bench.timing import step_times

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
    learner, _ = build_learner(config, subject.stats, world, subject.split)
    # Optimizers allocate their state in the first step.
    learner.train_step(subject.batch, 0)
    demand = Demand()
    with demand:
        learner.train_step(subject.batch, 1)
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


# Matmuls, convolutions and attention count, in the forward and the backward pass; sums, norms,
# activations and the optimizer, about one percent, do not. A multiply-add is two FLOPs.
NUM_COUNTED = 2
"""Samples to count; all others take the same FLOPs."""


def flops_per_update(subject: Subject, world: World) -> int:
    """FLOPs of a step, counted on a separate policy."""
    policy, _ = build_initial_policy(subject.config, subject.stats, world.device)
    policy.train()
    number = min(NUM_COUNTED, subject.split.samples_per_rank)
    batch = first_samples(subject.batch, number)
    counted = counted_flops(lambda: policy.training_loss(batch)[0])
    return counted * subject.split.samples_per_rank // number


def counted_flops(loss: Callable[[], Tensor]) -> int:
    """FLOPs of a loss and its gradients."""
    # Fused attention hides its matmuls, on a CPU also from the counter.
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        torch.autograd.backward(loss())
    return int(counter.get_total_flops())


SIZES = {"cuda": 8192, "cpu": 1024}
WARM_UP, NUM_PRODUCTS = 3, 10
COPIED = {"cuda": 1 << 30, "cpu": 1 << 27}
"""Bytes, more than caches hold."""
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "no": torch.float32}


@dataclass(frozen=True)
class Peak:
    """Peak rates of a device."""

    flops_per_s: float
    bytes_per_s: float


def peak_of(device: torch.device, precision: str, dtype: str) -> Peak:
    """Peak rates of a device in the precision of a run."""
    return Peak(peak_flops_per_s(device, precision, dtype), peak_bytes_per_s(device))


def peak_flops_per_s(device: torch.device, precision: str, dtype: str = "float32") -> float:
    """The rate of the fastest of several large matmuls, in the precision of a run."""
    number_type = torch.float64 if dtype == "float64" else DTYPES[precision]
    if device.type == "cpu" and precision != "no":
        # Few CPUs have fast bf16 matmuls; all have fast float32.
        number_type = torch.float32
    size = SIZES[device.type]
    # Equal values need less power than real ones, and would raise the rate.
    block = torch.randn(size, size, device=device).to(number_type)
    out = torch.empty_like(block)

    def multiply(_: int) -> None:
        torch.mm(block, block, out=out)

    step_times(multiply, range(WARM_UP), device)
    return 2 * size**3 / min(step_times(multiply, range(NUM_PRODUCTS), device))


def peak_bytes_per_s(device: torch.device) -> float:
    """The rate of the fastest of several large copies, in bytes read and written."""
    size = COPIED[device.type]
    block = torch.ones(size, dtype=torch.uint8, device=device)
    out = torch.empty_like(block)

    def copy(_: int) -> None:
        out.copy_(block)

    step_times(copy, range(WARM_UP), device)
    return 2 * size / min(step_times(copy, range(NUM_PRODUCTS), device))


@dataclass(frozen=True, kw_only=True)
class Roofline:
    """Memory traffic of a step, and the lower bounds of its time."""

    bytes_per_update: int
    """Traffic of unfused kernels; fused ones move less."""
    peak_bytes_per_s: float
    compute_ms: float
    """Bound by FLOPs only."""
    memory_ms: float
    """Bound by memory traffic only."""
    floor_ms: float
    """Sum over kernels of the larger of both bounds."""


def roofline_of(kernels: Sequence[Kernel], peak: Peak) -> Roofline:
    """The roofline of sequential kernels."""
    compute = [kernel.flops / peak.flops_per_s for kernel in kernels]
    memory = [kernel.num_bytes / peak.bytes_per_s for kernel in kernels]
    return Roofline(
        bytes_per_update=sum(kernel.num_bytes for kernel in kernels),
        peak_bytes_per_s=peak.bytes_per_s,
        compute_ms=1e3 * sum(compute),
        memory_ms=1e3 * sum(memory),
        floor_ms=1e3 * sum(map(max, compute, memory)),
    )
