"""The parallelism strategy of a run, computed without access to devices."""

from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any

from manyhands.config.launch.launcher import Launcher
from manyhands.config.sections.execution import (
    BOTH,
    SHARDS,
    WHOLE,
    DdpConfig,
    FsdpConfig,
    ParallelismConfig,
)
from manyhands.config.train import TrainConfig
from manyhands.errors import ConfigError


class StrategyKind(Enum):
    """The strategies, by the names users know."""

    SINGLE = "single"
    DP = "DP"
    DDP = "DDP"
    FSDP = "FSDP2"
    HSDP = "HSDP"


@dataclass(frozen=True)
class Strategy:
    """How processes replicate and shard the weights."""

    num_replicas: int = 1  # Replicas of the weights over all processes.
    num_shards: int = 1  # Processes that shard one replica.
    num_devices: int = 1  # Devices of each process, with a replica each.
    fsdp: FsdpConfig = field(default_factory=FsdpConfig)  # Details of FSDP.
    checkpoint_format: str = WHOLE  # Format of checkpoints: full weights, shards or both.

    @property
    def kind(self) -> StrategyKind:
        """The name of the strategy."""
        if self.num_shards > 1:
            return StrategyKind.HSDP if self.num_replicas > 1 else StrategyKind.FSDP
        if self.num_devices > 1:
            return StrategyKind.DP
        return StrategyKind.DDP if self.num_replicas > 1 else StrategyKind.SINGLE

    @property
    def is_sharded(self) -> bool:
        """Whether a process holds a shard of the weights."""
        return self.num_shards > 1

    @property
    def saves_full(self) -> bool:
        """Whether the main rank gathers and saves the full weights."""
        return self.checkpoint_format != SHARDS

    @property
    def saves_shards(self) -> bool:
        """Whether every rank saves its shards."""
        return self.checkpoint_format != WHOLE

    def __str__(self) -> str:
        descriptions = {
            StrategyKind.SINGLE: "single process",
            StrategyKind.DP: (
                f"DP, one process with weights replicated on {self.num_devices} devices"
            ),
            StrategyKind.DDP: f"DDP, {self.num_replicas} processes with replicated weights",
            StrategyKind.FSDP: f"FSDP2, weights sharded over {self.num_shards} processes",
            StrategyKind.HSDP: (
                f"HSDP, {self.num_replicas} replicas, each sharded over {self.num_shards} processes"
            ),
        }
        return descriptions[self.kind]


def resolve_strategy(config: TrainConfig, launcher: Launcher) -> Strategy:
    """The strategy from flags, else from the launcher; rejects invalid combinations."""
    degrees = config.parallelism
    if degrees == ParallelismConfig():
        degrees = launcher.parallelism or degrees
    replicas, shards = _filled(degrees, launcher.num_ranks)
    checkpoint_format = config.checkpoint_format or launcher.checkpoint_format or BOTH
    strategy = Strategy(
        replicas,
        shards,
        num_devices=degrees.gpus_per_process,
        fsdp=_merged(config.accelerator.fsdp, launcher.fsdp),
        # A sharded run that resumes in a single process has nothing to shard.
        checkpoint_format=checkpoint_format if shards > 1 else WHOLE,
    )
    faults = [
        *_device_faults(strategy, launcher.num_ranks),
        *_detail_faults(config, is_sharding=degrees.dp_shard != 1),
    ]
    if faults:
        raise ConfigError(faults)
    return strategy


def _filled(degrees: ParallelismConfig, num_ranks: int) -> tuple[int, int]:
    """The numbers of replicas and of shards per replica."""
    replicas, shards = degrees.dp_replicate, degrees.dp_shard
    # As in LeRobot, degrees of one mean unset.
    if replicas is None or (replicas, shards) == (1, 1):
        replicas = max(1, num_ranks // shards) if shards > 0 else 1
    if shards == -1:
        shards = max(1, num_ranks // replicas)
    if replicas * shards == num_ranks:
        return replicas, shards
    raise ConfigError(
        f"--parallelism.dp_replicate={degrees.dp_replicate or 'null'} and "
        f"--parallelism.dp_shard={degrees.dp_shard} do not multiply to {num_ranks}, the number "
        "of processes. Use null or -1 to derive one of them"
    )


def _merged(flags: FsdpConfig, launcher: FsdpConfig | None) -> FsdpConfig:
    """FSDP details from flags, else from the launcher."""
    default, launcher = FsdpConfig(), launcher or FsdpConfig()
    values: dict[str, Any] = {
        name: getattr(flags if getattr(flags, name) != getattr(default, name) else launcher, name)
        for name in (item.name for item in fields(FsdpConfig))
    }
    return FsdpConfig(**values)


def _device_faults(strategy: Strategy, num_ranks: int) -> list[str]:
    if strategy.num_devices == 1 or num_ranks == 1:
        return []
    return [
        f"--parallelism.gpus_per_process={strategy.num_devices} needs a single process, not "
        f"{num_ranks}. Remove it for one GPU per process"
    ]


def _detail_faults(config: TrainConfig, is_sharding: bool) -> list[str]:
    """Details of DDP or FSDP that the strategy does not use."""
    ddp, fsdp = config.accelerator.ddp, config.accelerator.fsdp
    if is_sharding and ddp != DdpConfig():
        given = ", ".join(_changed(ddp, DdpConfig()))
        return [f"--accelerator.ddp ({given}) has no effect with --parallelism.dp_shard"]
    if not is_sharding and config.checkpoint_format not in (None, WHOLE):
        return [
            f"--checkpoint_format={config.checkpoint_format} needs a sharded run. Set "
            "--parallelism.dp_shard=-1"
        ]
    if not is_sharding and fsdp != FsdpConfig():
        given = ", ".join(_changed(fsdp, FsdpConfig()))
        return [f"--accelerator.fsdp ({given}) has no effect without --parallelism.dp_shard=-1"]
    return []


def _changed(given: DdpConfig | FsdpConfig, default: DdpConfig | FsdpConfig) -> list[str]:
    names = [item.name for item in fields(given)]
    return [name for name in names if getattr(given, name) != getattr(default, name)]
