"""A fault for a test to plant: an operator of compiled modules that writes where nothing is."""

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _write_beyond(values, offset):
    tl.store(values + offset + tl.arange(0, 16), tl.full((16,), 1.0, tl.float32))


@torch.library.custom_op("planted::beyond", mutates_args=())
def beyond(values: Tensor) -> Tensor:
    """The values, after an illegal memory access."""
    copied = values.clone()
    _write_beyond[(1,)](copied.float(), 1 << 40)
    return copied


@beyond.register_fake
def _like(values: Tensor) -> Tensor:
    return torch.empty_like(values)


beyond.register_autograd(lambda ctx, gradient: gradient)
