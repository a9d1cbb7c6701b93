"""What checkpoints of a run take on disk."""

from dataclasses import dataclass

from manyhands.config.train import TrainConfig
from manyhands.parallel.strategy import Strategy
from manyhands.plan.memory import Sizes


@dataclass(frozen=True)
class Disk:
    """Checkpoints of a run."""

    checkpoint_bytes: int
    num_checkpoints: int
    """Those that are there at a time, at most."""

    @property
    def most_bytes(self) -> int:
        """All of them together."""
        return self.checkpoint_bytes * self.num_checkpoints


def disk_of(sizes: Sizes, config: TrainConfig, strategy: Strategy) -> Disk:
    """What a run saves, once its budget is settled."""
    weights = sizes.weights + (sizes.weights if sizes.averaged else 0)
    shards = weights if strategy.saves_shards else 0
    whole = weights if strategy.saves_whole else 0
    return Disk(shards + whole + sizes.remembered, num_kept(config))


def num_kept(config: TrainConfig) -> int:
    """Checkpoints that are there at a time, the one that is being written included."""
    if not config.save_checkpoint:
        return 0
    every, steps = config.save_freq, config.num_steps
    saved = -(-steps // every) if every else 1
    if config.keep_last is None:
        return saved
    others = (steps // config.keep_every if config.keep_every else 0) + bool(config.keep_best)
    return min(saved, config.keep_last + 1 + others)
