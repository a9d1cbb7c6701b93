"""Sharding requested by accelerate's launcher, in FSDP_* and PARALLELISM_CONFIG_* variables.

Both of accelerate's FSDP versions mean the same here. A variable passes at accelerate's default;
any other value is used, or rejected with an error that names it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from manyhands.config.sections.execution import BOTH, WHOLE, FsdpConfig, ParallelismConfig
from manyhands.errors import EnvironmentFault

STRATEGIES = ("FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD", "HYBRID_SHARD_ZERO2")
"""Accelerate's names; it also counts them from 1."""
HYBRID = ("HYBRID_SHARD", "HYBRID_SHARD_ZERO2")
KEEPS_WEIGHTS = ("SHARD_GRAD_OP", "HYBRID_SHARD_ZERO2")
"""Strategies that leave gathered weights in place between forward and backward pass."""
FORMATS = {"FULL_STATE_DICT": WHOLE, "SHARDED_STATE_DICT": BOTH}
"""What checkpoints hold by accelerate's names; weights are gathered in any case."""
FSDP, DEGREES = "FSDP_", "PARALLELISM_CONFIG_"

ONLY_VALUES = {
    # The seed initializes the same weights on every rank, and each rank keeps its own shard.
    "FSDP_CPU_RAM_EFFICIENT_LOADING": ("true", "false"),
    "FSDP_SYNC_MODULE_STATES": ("true", "false"),
    # Shards are slices of the policy's own parameters, and the next ones are prefetched.
    "FSDP_USE_ORIG_PARAMS": ("true",),
    "FSDP_BACKWARD_PREFETCH": ("backward_pre",),
    "FSDP_FORWARD_PREFETCH": ("false",),
    "FSDP_ACTIVATION_CHECKPOINTING": ("false",),
    "FSDP_ACTIVATION_CHECKPOINTING_OFFLOAD": ("false",),
    "FSDP_VERSION": ("1", "2"),
    "PARALLELISM_CONFIG_TP_SIZE": ("1",),
    "PARALLELISM_CONFIG_CP_SIZE": ("1",),
    "PARALLELISM_CONFIG_SP_SIZE": ("1",),
    # Details of parallelism that the sizes above disable.
    "PARALLELISM_CONFIG_CP_BACKEND": ("torch",),
    "PARALLELISM_CONFIG_SP_BACKEND": ("deepspeed",),
}
"""Variables that can only be met at these values."""
USED = (
    "FSDP_SHARDING_STRATEGY",
    "FSDP_RESHARD_AFTER_FORWARD",
    "FSDP_OFFLOAD_PARAMS",
    "FSDP_AUTO_WRAP_POLICY",
    "FSDP_TRANSFORMER_CLS_TO_WRAP",
    "FSDP_MIN_NUM_PARAMS",
    "FSDP_STATE_DICT_TYPE",
    "PARALLELISM_CONFIG_DP_REPLICATE_SIZE",
    "PARALLELISM_CONFIG_DP_SHARD_SIZE",
)


@dataclass(frozen=True)
class Sharding:
    """Sharding degrees, FSDP settings and checkpoint format."""

    parallelism: ParallelismConfig
    fsdp: FsdpConfig
    checkpoint_format: str | None


def read_sharding(environ: Mapping[str, str], num_local_ranks: int) -> Sharding:
    """Read the sharding that accelerate's variables request; raises with all unsupported values."""
    reject_unsupported(sharding_faults(environ))
    strategy = _strategy(environ)
    reshard = environ.get("FSDP_RESHARD_AFTER_FORWARD", "true").lower() != "false"
    return Sharding(
        _degrees(environ, strategy, num_local_ranks),
        FsdpConfig(
            reshard_after_forward=reshard and strategy not in KEEPS_WEIGHTS,
            wrap_modules=_wrap_modules(environ),
            cpu_offload=environ.get("FSDP_OFFLOAD_PARAMS", "").lower() == "true",
        ),
        FORMATS.get(environ.get("FSDP_STATE_DICT_TYPE", "").upper()),
    )


def sharding_faults(environ: Mapping[str, str]) -> list[str]:
    """Every sharding variable with an unsupported value."""
    return [
        f"{name}={value}"
        for name, value in environ.items()
        if name.startswith((FSDP, DEGREES)) and value and not _can_be_met(name, value)
    ]


def _can_be_met(name: str, value: str) -> bool:
    if name in ONLY_VALUES:
        return value.lower() in ONLY_VALUES[name]
    known: dict[str, Callable[[str], bool]] = {
        "FSDP_SHARDING_STRATEGY": lambda text: text in (*STRATEGIES, *"12345"),
        "FSDP_RESHARD_AFTER_FORWARD": lambda text: text in ("TRUE", "FALSE", *STRATEGIES[:1]),
        "FSDP_STATE_DICT_TYPE": FORMATS.__contains__,
        "FSDP_AUTO_WRAP_POLICY": lambda text: text in ("TRANSFORMER_BASED_WRAP", "NO_WRAP"),
        "PARALLELISM_CONFIG_DP_REPLICATE_SIZE": str.isdecimal,
        "PARALLELISM_CONFIG_DP_SHARD_SIZE": lambda text: text.isdecimal() or text == "-1",
    }
    return name in USED and known.get(name, bool)(value.upper())


def _strategy(environ: Mapping[str, str]) -> str:
    named = environ.get("FSDP_SHARDING_STRATEGY", "").upper() or STRATEGIES[0]
    return STRATEGIES[int(named) - 1] if named.isdecimal() else named


def _degrees(environ: Mapping[str, str], strategy: str, num_local_ranks: int) -> ParallelismConfig:
    if environ.get("ACCELERATE_USE_PARALLELISM_CONFIG", "").lower() == "true":
        copies = int(environ.get("PARALLELISM_CONFIG_DP_REPLICATE_SIZE") or 1)
        shards = int(environ.get("PARALLELISM_CONFIG_DP_SHARD_SIZE") or 1)
        return ParallelismConfig(dp_replicate=copies, dp_shard=shards)
    if strategy == "NO_SHARD":
        return ParallelismConfig()
    # Hybrid sharding keeps a full copy of the weights within each machine.
    return ParallelismConfig(dp_shard=num_local_ranks if strategy in HYBRID else -1)


def _wrap_modules(environ: Mapping[str, str]) -> list[str] | None:
    """Classes to wrap: none for NO_WRAP, null for the policy's own."""
    named = environ.get("FSDP_TRANSFORMER_CLS_TO_WRAP", "")
    classes = [name.strip() for name in named.split(",") if name.strip()]
    if environ.get("FSDP_AUTO_WRAP_POLICY", "").upper() == "NO_WRAP":
        return []
    return classes or None


def reject_unsupported(requests: list[str]) -> None:
    """Reject the unsupported requests of a launcher."""
    if requests:
        raise EnvironmentFault(
            f"the launcher sets {', '.join(requests)}, which manyhands does not support. Remove it "
            "from the launcher's flags or its config file"
        )
