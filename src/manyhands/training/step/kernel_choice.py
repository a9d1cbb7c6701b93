"""Kernel selection for the duration of a run."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.backends import cuda, cudnn

from manyhands.data.location import shared_home
from manyhands.launch.environment import keep_compiled

COMPILED = "compiled"
"""Folder of compiled kernels, which all runs of a machine use."""


@contextmanager
def kernel_settings(deterministic: bool) -> Iterator[None]:
    """Select fast or deterministic kernels; restore the settings at the end."""
    # Before anything else: the first optimizer fixes the folder of compiled kernels.
    keep_compiled(shared_home() / COMPILED)
    precision = torch.get_float32_matmul_precision()
    benchmark, strict = cudnn.benchmark, cudnn.deterministic
    algorithms = torch.are_deterministic_algorithms_enabled()
    torch.set_float32_matmul_precision("highest" if deterministic else "high")
    # Without benchmarking: that takes seconds, and cuDNN's heuristics select equally fast kernels.
    cudnn.benchmark, cudnn.deterministic = False, deterministic
    if deterministic or algorithms:
        # Operations without a deterministic kernel warn instead of failing. The call imports
        # torch's compiler, which takes a second.
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
    """Fused attention sums gradients in any order, also in deterministic mode."""
    cuda.enable_flash_sdp(allowed)
    cuda.enable_mem_efficient_sdp(allowed)
    cuda.enable_cudnn_sdp(allowed)
