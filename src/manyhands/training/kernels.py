"""How the device computes, for the time of a run."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.backends import cuda, cudnn


@contextmanager
def chosen_kernels(deterministic: bool) -> Iterator[None]:
    """Fast kernels, or only those that give the same bits every time; put back at the end."""
    precision = torch.get_float32_matmul_precision()
    benchmark, strict = cudnn.benchmark, cudnn.deterministic
    algorithms = torch.are_deterministic_algorithms_enabled()
    torch.set_float32_matmul_precision("highest" if deterministic else "high")
    cudnn.benchmark, cudnn.deterministic = not deterministic, deterministic
    # An operation that has only one way to compute is warned about, not refused.
    torch.use_deterministic_algorithms(deterministic, warn_only=True)
    _allow_fused_attention(not deterministic)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(precision)
        cudnn.benchmark, cudnn.deterministic = benchmark, strict
        torch.use_deterministic_algorithms(algorithms)
        _allow_fused_attention(True)


def _allow_fused_attention(allowed: bool) -> None:
    """Fused kernels of attention add gradients up in any order, and are not sorry when warned."""
    cuda.enable_flash_sdp(allowed)
    cuda.enable_mem_efficient_sdp(allowed)
    cuda.enable_cudnn_sdp(allowed)
