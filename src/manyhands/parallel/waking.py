"""A GPU's libraries, loaded while a run does other things."""

import contextlib
import threading
from collections.abc import Iterator

import torch
from torch.nn import functional

WAKING = "waking"
"""Name of the thread that loads them."""
NUM_TOKENS = 102
"""As many as ACT's encoder of actions has: which kernel reads a mask depends on its alignment."""


@contextlib.contextmanager
def waking(device: torch.device) -> Iterator[None]:
    """Have a thread compute something on a GPU first, which takes seconds, beside what is done.

    It draws from the GPU's generator, which is therefore to be seeded afterwards.
    """
    if device.type != "cuda":
        yield
        return
    thread = threading.Thread(target=_wake, args=(device,), name=WAKING)
    thread.start()
    yield
    thread.join()


def _wake(device: torch.device) -> None:
    # Whatever is wrong with a device, the run will find out and say better.
    with contextlib.suppress(RuntimeError):
        first_kernels(device)


def first_kernels(device: torch.device) -> None:
    """A convolution, attention and a product, forward and back."""
    images, kernels = (
        torch.ones(size, dtype=torch.bfloat16, device=device, requires_grad=True)
        for size in ((8, 64, NUM_TOKENS, 8), (64, 64, 3, 3))
    )
    tokens = functional.conv2d(images, kernels, padding=1).permute(0, 2, 3, 1).contiguous()
    heads = tokens.transpose(1, 2)
    visible = torch.ones(8, 1, 1, NUM_TOKENS, dtype=torch.bool, device=device)
    # Kernels of attention are compiled by the driver, once on a machine, for each of these.
    plain, masked = (
        functional.scaled_dot_product_attention(heads, heads, heads, mask, dropout_p=0.1)
        for mask in (None, visible)
    )
    torch.autograd.backward((plain @ masked.mT).sum())
