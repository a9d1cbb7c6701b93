"""A GPU's libraries, loaded while a run does other things."""

import contextlib
import threading

import torch
from torch.nn import functional

WAKING = "waking"
"""Name of the thread that loads them."""


def wake(device: torch.device) -> None:
    """Have a thread make a GPU's first convolution and product, which load libraries for long."""
    if device.type == "cuda":
        threading.Thread(target=first_kernels, args=(device,), name=WAKING).start()


def first_kernels(device: torch.device) -> None:
    """Compute something forward and back; no random numbers are drawn for it."""
    # Whatever is wrong with a device, the run will find out and say better.
    with contextlib.suppress(RuntimeError):
        images, kernels = (
            torch.ones(size, dtype=torch.bfloat16, device=device, requires_grad=True)
            for size in ((8, 64, 16, 16), (64, 64, 3, 3))
        )
        features = functional.conv2d(images, kernels, padding=1).flatten(2)
        torch.autograd.backward((features @ features.mT).sum())
