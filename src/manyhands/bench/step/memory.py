"""The most memory that updates took."""

import resource
import sys

import torch

UNIT = 1 if sys.platform == "darwin" else 1024
"""Bytes that the system counts by."""


def forget_peak(device: torch.device) -> None:
    """Count anew, where the device can."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)


def peak_bytes(device: torch.device) -> int:
    """The most bytes that tensors on a GPU took since; on a CPU the most of this process ever."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return UNIT * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
