"""How the device computes, for the time of a run."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def chosen_kernels(deterministic: bool) -> Iterator[None]:
    """Fast kernels, or only those that give the same bits every time; put back at the end."""
    precision = torch.get_float32_matmul_precision()
    benchmark, strict = torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic
    algorithms = torch.are_deterministic_algorithms_enabled()
    # Attention and pooling add up gradients in any order unless torch is told, as well as cuDNN; an
    # operation that knows only one way is warned about, not refused.
    torch.use_deterministic_algorithms(deterministic, warn_only=True)
    torch.set_float32_matmul_precision("highest" if deterministic else "high")
    torch.backends.cudnn.benchmark = not deterministic
    torch.backends.cudnn.deterministic = deterministic
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(algorithms)
        torch.set_float32_matmul_precision(precision)
        torch.backends.cudnn.benchmark = benchmark
        torch.backends.cudnn.deterministic = strict
