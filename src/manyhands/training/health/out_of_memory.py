"""Out-of-memory errors, explained with the flags that reduce memory."""

from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import torch

from manyhands import units
from manyhands.data.loading.stream import BatchSplit
from manyhands.errors import UserError
from manyhands.observe.host_memory import host_memory
from manyhands.parallel.world import World

SIGNS = ("out of memory", "DefaultCPUAllocator", "ALLOC_FAILED")
"""Messages of allocators and libraries without a dedicated exception."""


def is_out_of_memory(error: Exception) -> bool:
    """Whether an error is an out-of-memory error."""
    has_sign = any(sign in str(error) for sign in SIGNS)
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or has_sign


@contextmanager
def explaining_oom(split: BatchSplit, world: World) -> Iterator[None]:
    """Turn out-of-memory errors into a usage error with remedies."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise UserError(oom_message(split, world, reason)) from error


def oom_message(split: BatchSplit, world: World, reason: str) -> str:
    """The error message: memory of a step, and remedies, most effective first."""
    smaller = -(-split.micro_batch_size // 2)
    remedies = {
        f"--batch_size={smaller} --global_batch_size={split.samples_per_step} (smaller "
        "micro-batches, same effective batch)": split.micro_batch_size > 1,
        "--find_batch_size=true (finds a size that fits)": split.micro_batch_size > 1,
        "--accelerator.mixed_precision=bf16": world.precision == "no",
        "--parallelism.dp_shard=-1 (shards weights and optimizer state)": (
            world.size > 1 and not world.strategy.is_sharded
        ),
        "--accelerator.fsdp.cpu_offload=true": (
            world.strategy.is_sharded and not world.strategy.fsdp.cpu_offload
        ),
        "--dataset.image_size=[HEIGHT,WIDTH] (smaller images), --policy.input_features (fewer "
        "cameras), or a smaller policy": True,
    }
    helpful = [f"  {remedy}" for remedy, helps in remedies.items() if helps]
    return "\n".join(
        [
            f"out of memory in a training step on {world.device}: {reason}",
            f"micro-batches per process and step: {split.num_micro_batches} of "
            f"{split.micro_batch_size} "
            f"samples; precision: {world.precision}; {memory_line(world.device)}",
            "Remedies, most effective first:",
            *helpful,
        ]
    )


def memory_line(device: torch.device) -> str:
    """Memory of a device and its use, in words."""
    if device.type != "cuda":
        memory = host_memory()
        own = psutil.Process().memory_info().rss
        return (
            f"memory: this process uses {units.num_bytes(own)} of "
            f"{units.num_bytes(memory.total_bytes)}, {units.num_bytes(memory.available_bytes)} free"
        )
    try:
        free, total = torch.cuda.mem_get_info(device)
    except RuntimeError:
        # After some errors a GPU no longer responds.
        return "free memory unknown"
    peak = torch.cuda.max_memory_allocated(device)
    return (
        f"memory: this process used up to {units.num_bytes(peak)} of {units.num_bytes(total)}, "
        f"{units.num_bytes(free)} free"
    )
