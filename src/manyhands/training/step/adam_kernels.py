"""Adam steps and EMA updates with one kernel for all weights of a group.

Torch's kernels write scaled gradients back, and need a dozen launches instead of one; as foreach
operations, an EMA update passes over all weights three times. The kernel reads tensor addresses
from a table, because gradients move with every captured graph.
"""

from collections.abc import Iterable
from typing import Any

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor
from torch.optim import Adam, AdamW

from manyhands.training.step.ema import Ema, NoEma

CHUNK = 512
"""Values updated by one program."""
NUM_TENSORS = 5
"""Addresses in a row: weight, gradient, mean, square, EMA; before them size and first program."""


class FusedAdamSteps:
    """Replaces optimizer steps and EMA updates in one CUDA graph, and lives as long as it."""

    def __init__(self, optimizer: Adam, ema: Ema | NoEma) -> None:
        # Loss scalers pass overflow and scale to a fused optimizer as attributes.
        self._optimizer: Any = optimizer
        self._groups = [
            KernelGroup(optimizer, group, ema)
            for group in optimizer.param_groups
            if any(weight in optimizer.state for weight in group["params"])
        ]

    @torch.no_grad()
    def __call__(self) -> None:
        """Run a step on scaled gradients, or skip it after an overflow."""
        is_bad, scale = self._optimizer.found_inf, self._optimizer.grad_scale
        for group in self._groups:
            group.step(is_bad, torch.ones_like(is_bad) if scale is None else scale)


class KernelGroup:
    """The trainable weights of a group, and a table of their addresses."""

    def __init__(self, optimizer: Adam, group: dict[str, Any], ema: Ema | NoEma) -> None:
        self._settings = group
        self._is_decoupled = isinstance(optimizer, AdamW)
        self._weights = [weight for weight in group["params"] if weight in optimizer.state]
        self._states = [optimizer.state[weight] for weight in self._weights]
        self._share = ema.share
        self._averages = [ema.average_of(weight) for weight in self._weights]
        sizes = torch.tensor([weight.numel() for weight in self._weights], dtype=torch.int64)
        chunks = -(-sizes // CHUNK)
        firsts = chunks.cumsum(0) - chunks
        device = self._weights[0].device
        self._owners = torch.arange(len(sizes)).repeat_interleave(chunks).to(device, torch.int32)
        # Page-locked, because every graph replay copies it again.
        self._places = F.pad(torch.stack([sizes, firsts], dim=1), (0, NUM_TENSORS)).pin_memory()
        self._table = self._places.to(device)

    def step(self, is_bad: Tensor, scale: Tensor) -> None:
        """Step the weights with scaled gradients, or change nothing."""
        self._write_table()
        steps = [state["step"] for state in self._states]
        torch._foreach_add_(steps, len(steps) * [1 - is_bad])
        # In double precision, for 1 - beta**step with beta close to one.
        counts, (beta1, beta2) = torch.stack(steps).double(), self._settings["betas"]
        corrections = torch.stack([1 - beta1**counts, (1 - beta2**counts).sqrt()], dim=1)
        _step[(len(self._owners),)](
            self._table,
            self._owners,
            corrections.float(),
            self._settings["lr"],
            is_bad,
            scale,
            self._share,
            beta1,
            beta2,
            self._settings["eps"],
            self._settings["weight_decay"],
            self._is_decoupled,
            2 + NUM_TENSORS,
            CHUNK,
        )

    def _write_table(self) -> None:
        """Write the addresses of all tensors into the table."""
        if not torch.cuda.is_current_stream_capturing():
            # The previous step may not have copied its table yet.
            torch.cuda.current_stream().synchronize()
        rows = zip(self._places, self._weights, self._states, self._averages, strict=True)
        for row, weight, state, average in rows:
            moments = (state["exp_avg"], state["exp_avg_sq"])
            tensors = (weight, gradient_of(weight), *moments, average)
            check_layout(tensors)
            row[2:] = torch.tensor([each.data_ptr() for each in tensors])
        self._table.copy_(self._places, non_blocking=True)


def gradient_of(weight: Tensor) -> Tensor:
    """The gradient of a weight."""
    if weight.grad is None:
        raise RuntimeError("a weight has no gradient")
    return weight.grad


def check_layout(tensors: Iterable[Tensor]) -> None:
    """Reject tensors whose values are not dense in memory, or not in the same order."""
    orders = [order_of(each) for each in tensors]
    if any(order != orders[0] for order in orders) or not is_dense(orders[0]):
        raise RuntimeError(
            "a weight, its gradient, its optimizer state or its EMA has another memory layout"
        )


def order_of(tensor: Tensor) -> list[tuple[int, int]]:
    """Stride and size of every dimension that has more than one value."""
    pairs = zip(tensor.stride(), tensor.shape, strict=True)
    return [(stride, size) for stride, size in pairs if size > 1 and tensor.numel() > 0]


def is_dense(order: list[tuple[int, int]]) -> bool:
    """Whether values are adjacent, without gaps and overlaps."""
    expected = 1
    for stride, size in sorted(order):
        if stride != expected:
            return False
        expected *= size
    return True


@triton.jit
def _step(
    table,
    owners,
    corrections,
    rate,
    is_bad,
    scale,
    share,
    beta1: tl.constexpr,
    beta2: tl.constexpr,
    eps: tl.constexpr,
    decay: tl.constexpr,
    is_decoupled: tl.constexpr,
    row_size: tl.constexpr,
    chunk: tl.constexpr,
):
    if tl.load(is_bad) == 0:
        owner = tl.load(owners + tl.program_id(0))
        row = table + row_size * owner
        size, first = tl.load(row), tl.load(row + 1)
        at = (tl.program_id(0) - first) * chunk + tl.arange(0, chunk)
        inside = at < size
        weights, means = _tensor(row + 2) + at, _tensor(row + 4) + at
        squares, averages = _tensor(row + 5) + at, _tensor(row + 6) + at
        lr, weight = tl.load(rate), _values(weights, inside)
        gradient = _values(_tensor(row + 3) + at, inside) / tl.load(scale)
        mean, square = _values(means, inside), _values(squares, inside)
        weight, gradient = _decayed(weight, gradient, lr, decay, is_decoupled)
        mean += (1 - beta1) * (gradient - mean)
        square += (1 - beta2) * (gradient * gradient - square)
        of_mean, of_square = tl.load(corrections + 2 * owner), tl.load(corrections + 2 * owner + 1)
        weight -= lr / of_mean * mean / (tl.sqrt(square) / of_square + eps)
        if share is not None:
            average = _values(averages, inside)
            tl.store(averages, average + tl.load(share) * (weight - average), mask=inside)
        tl.store(weights, weight, mask=inside)
        tl.store(means, mean, mask=inside)
        tl.store(squares, square, mask=inside)


@triton.jit
def _decayed(weight, gradient, lr, decay: tl.constexpr, is_decoupled: tl.constexpr):
    if is_decoupled:
        weight -= lr * decay * weight
    else:
        gradient += decay * weight
    return weight, gradient


@triton.jit
def _values(addresses, inside):
    return tl.load(addresses, mask=inside, other=0.0)


@triton.jit
def _tensor(place):
    return tl.load(place).to(tl.pointer_type(tl.float32))
