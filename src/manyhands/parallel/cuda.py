"""CUDA warm-up in a background thread, work on a side stream, and the capture of graphs."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch
from torch.nn import functional

WARM_UP_THREAD = "cuda-warm-up"
NUM_TOKENS = 102
"""As in ACT's action encoder: the attention kernel depends on the alignment of the mask."""


@contextmanager
def warming_up(device: torch.device) -> Iterator[None]:
    """Run the first kernels of a GPU, which take seconds, in a thread beside the block."""
    # It draws from the GPU's generator, so seed that afterwards.
    if device.type != "cuda":
        yield
        return
    thread = threading.Thread(target=_warm_up, args=(device,), name=WARM_UP_THREAD)
    thread.start()
    yield
    thread.join()


def _warm_up(device: torch.device) -> None:
    # The run itself reports a faulty device better.
    with suppress(RuntimeError):
        first_kernels(device)


def first_kernels(device: torch.device) -> None:
    """Run a convolution, attention and a matmul, forward and backward."""
    images, kernels = (
        torch.ones(size, dtype=torch.bfloat16, device=device, requires_grad=True)
        for size in ((8, 64, NUM_TOKENS, 8), (64, 64, 3, 3))
    )
    tokens = functional.conv2d(images, kernels, padding=1).permute(0, 2, 3, 1).contiguous()
    heads = tokens.transpose(1, 2)
    visible = torch.ones(8, 1, 1, NUM_TOKENS, dtype=torch.bool, device=device)
    # The driver compiles attention kernels once per machine for each of these.
    plain, masked = (
        functional.scaled_dot_product_attention(heads, heads, heads, mask, dropout_p=0.1)
        for mask in (None, visible)
    )
    torch.autograd.backward((plain @ masked.mT).sum())


@contextmanager
def on_side_stream(device: torch.device) -> Iterator[None]:
    """Submit work to a side stream, ordered after earlier and before later work."""
    # Tensors of a captured step must not start in the default stream, which cannot be captured.
    if device.type != "cuda":
        yield
        return
    cuda: Any = torch.cuda
    current, side = cuda.current_stream(device), cuda.Stream(device)
    side.wait_stream(current)
    with cuda.stream(side):
        yield
    current.wait_stream(side)


ABANDONED: list[torch.cuda.CUDAGraph] = []
"""Graphs whose capture failed: torch keeps asking them whether memory is theirs."""


@contextmanager
def capturing(graph: torch.cuda.CUDAGraph) -> Iterator[None]:
    """Capture submitted kernels; leave the device usable if the capture fails."""
    pool, stream = torch.cuda.graph_pool_handle(), torch.cuda.current_stream()
    try:
        # Other threads may use the device meanwhile: loaders copy batches.
        with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
            yield
    except RuntimeError:
        if not has_ended(graph):
            abort_capture(graph, pool, stream)
        raise


def has_ended(graph: torch.cuda.CUDAGraph) -> bool:
    """Whether a capture finished; one that the device rejected did not."""
    try:
        graph.pool()
    except RuntimeError:
        return False
    return True


def abort_capture(
    graph: torch.cuda.CUDAGraph, pool: tuple[int, int], stream: torch.cuda.Stream
) -> None:
    """Clean up as the end of a capture would."""
    torch.cuda.set_stream(stream)
    torch._C._cuda_endAllocateToPool(stream.device_index, pool)
    ABANDONED.append(graph)
    # The device's generator waits for the end of a capture; that of any capture suffices.
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        torch.zeros((), device=stream.device)
