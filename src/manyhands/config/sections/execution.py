"""Parallelism, DDP and FSDP options, checkpoint format and step mode."""

from collections.abc import Iterator
from dataclasses import dataclass

from manyhands.config.schema.rules import at_least, one_of

COMPRESSIONS = ("none", "bf16")
WHOLE, SHARDS, BOTH = "safetensors", "dcp", "safetensors_dcp"
CHECKPOINT_FORMATS = (WHOLE, SHARDS, BOTH)
"""LeRobot's names for what a checkpoint of a sharded run holds."""


@dataclass(frozen=True, kw_only=True)
class ParallelismConfig:
    """Number of replicas of the weights, and number of shards of each replica."""

    dp_replicate: int | None = None
    """Copies of the weights; null: one per group of --parallelism.dp_shard processes."""
    dp_shard: int = 1
    """Processes per copy of the weights (FSDP2); 1: no sharding, -1: all processes."""
    gpus_per_process: int = 1
    """GPUs of a single process, each with a copy of the weights (DataParallel)."""

    def faults(self) -> Iterator[str]:
        """Yield invalid degrees."""
        if self.dp_replicate is not None and self.dp_replicate < 1:
            yield f"--parallelism.dp_replicate={self.dp_replicate} must be at least 1, or null"
        if self.dp_shard < 1 and self.dp_shard != -1:
            yield f"--parallelism.dp_shard={self.dp_shard} must be at least 1, or -1 for all"
        yield from at_least(self, "parallelism.", 1, "gpus_per_process")


@dataclass(frozen=True, kw_only=True)
class FsdpConfig:
    """FSDP settings, used with --parallelism.dp_shard."""

    reshard_after_forward: bool = True
    """Reshard weights between forward and backward; false is faster but needs more memory."""
    wrap_modules: list[str] | None = None
    """Module classes to wrap as FSDP units; null: those the policy declares."""
    cpu_offload: bool = False
    """Offload shards and optimizer state to CPU memory."""


@dataclass(frozen=True, kw_only=True)
class DdpConfig:
    """DDP settings: how gradients are all-reduced."""

    find_unused_parameters: bool = False
    """Only false: every parameter must receive a gradient in every step."""
    gradient_as_bucket_view: bool = True
    """Gradients are views of the DDP buckets (gradient_as_bucket_view), which saves memory."""
    static_graph: bool = False
    """Assert that the graph of every step is the same (DDP static_graph)."""
    gradient_compression: str = "none"
    """Precision of the gradient all-reduce: none, or bf16 (half the bytes)."""

    def faults(self) -> Iterator[str]:
        """Yield invalid combinations."""
        if self.find_unused_parameters:
            yield (
                "--accelerator.ddp.find_unused_parameters=true slows every step and is not "
                "needed: parameters without a gradient are reported by name. Remove it"
            )
        yield from one_of(self, "accelerator.ddp.", gradient_compression=COMPRESSIONS)


STEP_MODES = ("auto", "eager", "graph", "compile")


@dataclass(frozen=True, kw_only=True)
class StepConfig:
    """How steps run on a GPU; on a CPU they always run eagerly."""

    mode: str = "auto"
    """eager, graph (CUDA graph), compile (CUDA graph of compiled modules), or auto: graph, then
    compile once a trial in a separate process has shown that it is correct and faster."""
    compile_min_left_s: float = 300.0
    """With auto: compile only if at least this much training time is left, in seconds."""

    def faults(self) -> Iterator[str]:
        """Yield invalid values."""
        yield from one_of(self, "step.", mode=STEP_MODES)
        yield from at_least(self, "step.", 0, "compile_min_left_s")
