"""Peak memory of steps."""

import resource
import sys

import torch

UNIT = 1 if sys.platform == "darwin" else 1024
"""Bytes per unit of ru_maxrss."""


def forget_peak(device: torch.device) -> None:
    """Reset the peak, where the device supports it."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)


def peak_bytes(device: torch.device) -> int:
    """Peak bytes of tensors on a GPU since the reset; on a CPU of this process ever."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return UNIT * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
