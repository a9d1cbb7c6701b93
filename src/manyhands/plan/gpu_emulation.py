"""Emulates autocast and fused kernels of a GPU with fake tensors, and counts their live bytes.

The memory of a training step depends on both. Which operations a GPU computes in full precision
under autocast is torch's list for CUDA; of a CPU's list only the lower precision is the same.
"""

import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

# fmt: off
FP32_OPS = frozenset({
    "acos", "asin", "cdist", "cosh", "cosine_similarity", "cross_entropy", "cumprod", "cumsum",
    "dist", "erfinv", "exp", "expm1", "group_norm", "kl_div", "l1_loss", "layer_norm", "log",
    "log10", "log1p", "log2", "log_softmax", "mse_loss", "nll_loss", "norm", "normalize", "pdist",
    "pow", "prod", "reciprocal", "renorm", "rsqrt", "sinh", "smooth_l1_loss", "softmax",
    "softmin", "softplus", "sum", "tan", "__pow__", "__rdiv__", "__rpow__", "__rtruediv__",
    "binary_cross_entropy_with_logits",
})
# fmt: on
"""What CUDA's autocast computes in full precision."""
LOW = torch.bfloat16


class GpuEmulation(TorchFunctionMode):
    """Runs operations as on a GPU, optionally in low precision."""

    def __init__(self, in_low_precision: bool) -> None:
        super().__init__()
        self._in_low_precision = in_low_precision

    def autocast(self) -> torch.autocast:
        """The autocast context of the forward pass."""
        return torch.autocast("cpu", LOW, enabled=self._in_low_precision)

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        given: dict[str, Any] = dict(kwargs or {})
        if func is F.scaled_dot_product_attention:
            return fused_attention(*args, **given)
        if getattr(func, "__self__", None) is torch.Tensor.is_cuda:
            return True
        is_rounding = torch.is_autocast_enabled("cpu")
        if not (is_rounding and getattr(func, "__name__", "") in FP32_OPS):
            return func(*args, **given)
        with torch.autocast("cpu", enabled=False):
            return func(*map(_in_full, args), **{key: _in_full(given[key]) for key in given})


def fused_attention(
    queries: Tensor, keys: Tensor, values: Tensor, attn_mask: Tensor | None = None, **_: Any
) -> Tensor:
    """Emulate a fused attention kernel, which stores no attention matrix."""
    parts: Sequence[Tensor] = (queries, keys, values)
    if torch.is_autocast_enabled("cpu"):
        parts = [part.to(LOW) for part in parts]
    mask = None if attn_mask is None else attn_mask.to(parts[0].dtype)
    output: Tensor = _Attention.apply(*parts, mask)
    return output


class _Attention(torch.autograd.Function):
    """The memory of fused attention, without its computation."""

    @staticmethod
    def forward(
        ctx: Any, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None
    ) -> Tensor:
        samples, heads, length, _ = queries.shape
        # Laid out as (samples, length, heads, size), as in the outputs of all fused kernels.
        output = queries.new_empty(samples, length, heads, values.shape[-1]).transpose(1, 2)
        sums = queries.new_empty(samples, heads, length, dtype=torch.float32)
        kept = [each for each in (queries, keys, values, output, sums, mask) if each is not None]
        ctx.save_for_backward(*kept)
        return output

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> tuple[Tensor | None, ...]:
        queries, keys, values, *_others = ctx.saved_tensors
        return (*(torch.empty_like(each) for each in (queries, keys, values)), None)


def _in_full(value: Any) -> Any:
    is_low = isinstance(value, Tensor) and value.dtype == LOW
    return value.float() if is_low else value


BLOCK = 512  # Bytes that a GPU's memory is handed out in.


class LiveBytes(TorchDispatchMode):
    """Counts the memory of every tensor that is created, until it is freed."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0
        self.most = 0  # The most there ever was at a time since this was last forgotten.
        self._known: weakref.WeakSet[Any] = weakref.WeakSet()

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        self.count(each for each in tree_leaves(made) if isinstance(each, Tensor))
        return made

    def count(self, tensors: Iterable[Tensor]) -> None:
        """Also count existing tensors; each is counted once."""
        for tensor in tensors:
            memory = tensor.untyped_storage()
            if memory in self._known:
                continue
            self._known.add(memory)
            size = in_blocks(memory.nbytes())
            weakref.finalize(memory, self._release, size).atexit = False
            self.now += size
            self.most = max(self.most, self.now)

    def reset_peak(self) -> None:
        """Reset the peak to the current memory."""
        self.most = self.now

    def _release(self, size: int) -> None:
        self.now -= size


def in_blocks(size: int) -> int:
    """Round the size of a tensor up to blocks of the GPU allocator."""
    return -(-size // BLOCK) * BLOCK
