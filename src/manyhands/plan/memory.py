"""GPU memory of a run by purpose, and disk space of its checkpoints."""

from collections.abc import Iterable
from dataclasses import dataclass

from torch import Tensor, nn

from manyhands.config.sections.optim import OptimizerConfig, SgdConfig
from manyhands.config.train import TrainConfig
from manyhands.parallel.sharded_engine import shard_units
from manyhands.parallel.strategy import Strategy, StrategyKind
from manyhands.plan.fake_step import FakeSteps, StepConditions
from manyhands.plan.gpu_emulation import in_blocks
from manyhands.plan.topologies import PlannedRun
from manyhands.training.step.trial import RESERVED_BYTES

GATHERED = 2
"""Units of which whole weights are there at a time: that which computes, and the next."""


@dataclass(frozen=True)
class Footprint:
    """Bytes on one GPU."""

    weights: int
    """What the GPU holds of the weights, trained or not, and of their average."""
    optimizer: int
    """What the optimizer remembers of them."""
    update: int
    """A batch, activations and gradients, when together they are largest."""
    capture: int
    """Copies of all that a step changes, while a captured step is compared with an eager one."""
    tries_compiled: bool = False
    """Whether another process tries the compiled step meanwhile, where memory is free for it."""

    @property
    def needed(self) -> int:
        """The most while steps run eagerly."""
        return self.weights + self.optimizer + self.update

    @property
    def most(self) -> int:
        """The most that the run itself has at any time."""
        return self.needed + self.capture

    @property
    def trial(self) -> int:
        """What a trial of the compiled step needs on top, in a process of its own."""
        return self.most + RESERVED_BYTES if self.tries_compiled else 0


@dataclass(frozen=True)
class Sizes:
    """Bytes of a policy, whatever it is spread over."""

    weights: int
    """All weights and buffers."""
    trained: int
    """Weights that are trained, of which there are gradients."""
    remembered: int
    """What an optimizer remembers."""
    averaged: int
    """The average of the weights."""
    outside: int
    """Weights outside of the units that shards are gathered by."""
    largest_unit: int

    @property
    def changed(self) -> int:
        """All that an update changes."""
        return self.trained + self.remembered + self.averaged


def model_sizes(network: nn.Module, config: TrainConfig, strategy: Strategy) -> Sizes:
    """The sizes of a network and of what training adds to it."""
    assert config.optimizer is not None
    trained = bytes_of(each for each in network.parameters() if each.requires_grad)
    units = [
        bytes_of(unit.parameters()) for unit in shard_units(network, strategy.fsdp.wrap_modules)
    ]
    weights = bytes_of(network.parameters())
    return Sizes(
        weights=weights + bytes_of(network.buffers()),
        trained=trained,
        remembered=num_optimizer_states(config.optimizer) * trained,
        averaged=trained if config.ema.enable else 0,
        outside=max(0, weights - sum(units)),
        largest_unit=max(units, default=0),
    )


def num_optimizer_states(optimizer: OptimizerConfig) -> int:
    """Numbers that an optimizer keeps for every weight."""
    if isinstance(optimizer, SgdConfig):
        return 1 if optimizer.momentum else 0
    return 2


def memory_footprint(rehearsals: FakeSteps, sizes: Sizes, spread: PlannedRun) -> Footprint:
    """What one GPU of a run holds."""
    strategy, config, share = spread.strategy, spread.config, spread.split
    is_ddp = strategy.kind is StrategyKind.DDP
    conduct = StepConditions(
        num_samples=-(-share.micro_batch_size // strategy.num_devices),
        in_low_precision=spread.is_rounded,
        # DDP sends gradients from where they lie, and several micro-batches add them up.
        keeps_gradients=is_ddp or share.num_micro_batches > 1,
        has_whole_weights=not strategy.is_sharded,
    )
    update = rehearsals.most_bytes(conduct)
    if strategy.is_sharded:
        return _of_shards(sizes, update, spread)
    captures = config.step.mode != "eager" and strategy.kind in (
        StrategyKind.SINGLE,
        StrategyKind.DDP,
    )
    sends_copies = is_ddp and not config.accelerator.ddp.gradient_as_bucket_view
    return Footprint(
        weights=sizes.weights + sizes.averaged,
        optimizer=sizes.remembered,
        # Once gradients are there, a step of the average makes a difference of all weights.
        update=max(update, sizes.trained + sizes.averaged) + sends_copies * sizes.trained,
        capture=2 * sizes.changed if captures else 0,
        tries_compiled=captures and config.step.mode == "auto" and not config.cudnn_deterministic,
    )


def _of_shards(sizes: Sizes, update: int, spread: PlannedRun) -> Footprint:
    num_shards = spread.strategy.num_shards
    kept = (sizes.weights + sizes.averaged) // num_shards
    travelling = sizes.outside + GATHERED * sizes.largest_unit
    # Gradients are added up in full precision, whatever weights travel in.
    gathered = (travelling // 2 if spread.is_rounded else travelling) + sizes.largest_unit
    return Footprint(
        weights=kept + gathered,
        optimizer=sizes.remembered // num_shards,
        update=update + sizes.trained // num_shards,
        capture=0,
    )


def bytes_of(tensors: Iterable[Tensor]) -> int:
    """What tensors take of a GPU's memory."""
    return sum(in_blocks(each.numel() * each.element_size()) for each in tensors)


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


def checkpoint_disk(sizes: Sizes, config: TrainConfig, strategy: Strategy) -> Disk:
    """What a run saves, once its budget is settled."""
    weights = sizes.weights + (sizes.weights if sizes.averaged else 0)
    shards = weights if strategy.saves_shards else 0
    whole = weights if strategy.saves_full else 0
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
