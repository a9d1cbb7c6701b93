"""How a run is spread over processes: LeRobot's degrees, and details of how weights travel."""

from collections.abc import Iterator
from dataclasses import dataclass

COMPRESSIONS = ("none", "bf16")
WHOLE, SHARDS, BOTH = "safetensors", "dcp", "safetensors_dcp"
CHECKPOINT_FORMATS = (WHOLE, SHARDS, BOTH)
"""LeRobot's names for what a checkpoint of a sharded run holds."""


@dataclass(frozen=True, kw_only=True)
class ParallelismConfig:
    """Processes that hold copies of the weights, and processes that share one copy."""

    dp_replicate: int | None = None
    """Copies of the weights; null makes one per group of --parallelism.dp_shard processes."""
    dp_shard: int = 1
    """Processes that share one copy of the weights; 1 shards nothing, -1 shares it among all."""
    gpus_per_process: int = 1
    """GPUs that a single process computes on, each with a copy of the weights."""

    def faults(self) -> Iterator[str]:
        """Yield values that are no degree."""
        if self.dp_replicate is not None and self.dp_replicate < 1:
            yield f"--parallelism.dp_replicate={self.dp_replicate} must be at least 1, or null"
        if self.dp_shard < 1 and self.dp_shard != -1:
            yield f"--parallelism.dp_shard={self.dp_shard} must be at least 1, or -1 for all"
        if self.gpus_per_process < 1:
            yield f"--parallelism.gpus_per_process={self.gpus_per_process} must be at least 1"


@dataclass(frozen=True, kw_only=True)
class FsdpConfig:
    """How shards of the weights travel, where --parallelism.dp_shard makes some."""

    reshard_after_forward: bool = True
    """Drop gathered weights between forward and backward pass; false saves time, costs memory."""
    wrap_modules: list[str] | None = None
    """Classes of layers to gather one at a time; null takes those the policy declares."""
    cpu_offload: bool = False
    """Keep shards and optimizer state in the host's memory."""


@dataclass(frozen=True, kw_only=True)
class DdpConfig:
    """How gradients travel between processes that hold whole copies of the weights."""

    find_unused_parameters: bool = False
    """Only false: every parameter takes part in every update."""
    gradient_as_bucket_view: bool = True
    """Let gradients lie where they are sent from, which saves a copy of them."""
    static_graph: bool = False
    """Promise that all updates compute alike, which saves bookkeeping."""
    gradient_compression: str = "none"
    """Precision of gradients under way: none keeps them, bf16 halves them."""

    def faults(self) -> Iterator[str]:
        """Yield what gradients cannot do."""
        if self.find_unused_parameters:
            yield (
                "--accelerator.ddp.find_unused_parameters=true is not needed and slows every "
                "update down: a policy whose parameters do not all take part is told their names"
            )
        if self.gradient_compression not in COMPRESSIONS:
            yield (
                f"--accelerator.ddp.gradient_compression={self.gradient_compression} is not one "
                f"of {', '.join(COMPRESSIONS)}"
            )
