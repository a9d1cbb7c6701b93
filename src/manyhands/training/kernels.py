"""How the device computes, for the time of a run."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.backends import cuda, cudnn

from manyhands.data.location import shared_home
from manyhands.launch.environment import keep_compiled

COMPILED = "compiled"
"""Folder of compiled kernels among the files that runs of a machine share."""


@contextmanager
def chosen_kernels(deterministic: bool) -> Iterator[None]:
    """Fast kernels, or only those that give the same bits every time; put back at the end."""
    # Before anything else: the first optimizer that is made settles where compiled ones are kept.
    keep_compiled(shared_home() / COMPILED)
    precision = torch.get_float32_matmul_precision()
    benchmark, strict = cudnn.benchmark, cudnn.deterministic
    algorithms = torch.are_deterministic_algorithms_enabled()
    torch.set_float32_matmul_precision("highest" if deterministic else "high")
    # Not by trying them all: that takes seconds, and cuDNN knows as well which is fastest.
    cudnn.benchmark, cudnn.deterministic = False, deterministic
    if deterministic or algorithms:
        # An operation that has only one way to compute is warned about, not refused. To say so
        # imports torch's compiler, which takes a second.
        torch.use_deterministic_algorithms(deterministic, warn_only=True)
    _allow_fused_attention(not deterministic)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(precision)
        cudnn.benchmark, cudnn.deterministic = benchmark, strict
        if deterministic or algorithms:
            torch.use_deterministic_algorithms(algorithms)
        _allow_fused_attention(True)


def _allow_fused_attention(allowed: bool) -> None:
    """Fused kernels of attention add gradients up in any order, and are not sorry when warned."""
    cuda.enable_flash_sdp(allowed)
    cuda.enable_mem_efficient_sdp(allowed)
    cuda.enable_cudnn_sdp(allowed)
