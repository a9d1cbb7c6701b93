"""GPU memory of a run by purpose, and disk space of its checkpoints."""

from collections.abc import Iterable
from dataclasses import dataclass

from torch import Tensor, nn

from manyhands.config.sections.optim import SgdConfig
from manyhands.config.train import TrainConfig
from manyhands.parallel.sharded_engine import shard_units
from manyhands.parallel.strategy import Strategy, StrategyKind
from manyhands.plan.fake_step import FakeSteps, StepConditions
from manyhands.plan.gpu_emulation import in_blocks
from manyhands.plan.topologies import PlannedRun
from manyhands.training.step.trial import RESERVED_BYTES

GATHERED = 2  # Units of which whole weights are there at a time: that which computes, and the next.


@dataclass(frozen=True)
class Footprint:
    """GPU memory in bytes, by purpose."""

    weights: int  # What the GPU holds of the weights, trained or not, and of their average.
    optimizer: int  # What the optimizer remembers of them.
    update: int  # A batch, activations and gradients, when together they are largest.
    capture: int
    """Copies of all that a step changes, while a captured step is compared with an eager one."""
    tries_compiled: bool = False
    """Whether another process tries the compiled step meanwhile, where memory is free for it."""

    @property
    def needed(self) -> int:
        """Peak memory while steps run eagerly."""
        return self.weights + self.optimizer + self.update

    @property
    def most(self) -> int:
        """Peak memory of the run itself."""
        return self.needed + self.capture

    @property
    def trial(self) -> int:
        """Additional memory of a trial of the compiled step, in a separate process."""
        return self.most + RESERVED_BYTES if self.tries_compiled else 0


@dataclass(frozen=True)
class Sizes:
    """Sizes of a policy in bytes, independent of the topology."""

    weights: int  # All weights and buffers.
    trained: int  # Weights that are trained, of which there are gradients.
    remembered: int  # What an optimizer remembers.
    averaged: int  # The average of the weights.
    outside: int  # Weights outside of the units that shards are gathered by.
    largest_unit: int

    @property
    def changed(self) -> int:
        """Size of everything that a step changes."""
        return self.trained + self.remembered + self.averaged


def model_sizes(network: nn.Module, config: TrainConfig, strategy: Strategy) -> Sizes:
    """Measure a network and what training adds to it."""
    assert config.optimizer is not None
    trained = bytes_of(each for each in network.parameters() if each.requires_grad)
    units = [
        bytes_of(unit.parameters()) for unit in shard_units(network, strategy.fsdp.wrap_modules)
    ]
    weights = bytes_of(network.parameters())
    num_states = 2
    if isinstance(config.optimizer, SgdConfig):
        num_states = 1 if config.optimizer.momentum else 0
    return Sizes(
        weights=weights + bytes_of(network.buffers()),
        trained=trained,
        remembered=num_states * trained,
        averaged=trained if config.ema.enable else 0,
        outside=max(0, weights - sum(units)),
        largest_unit=max(units, default=0),
    )


def memory_footprint(rehearsals: FakeSteps, sizes: Sizes, spread: PlannedRun) -> Footprint:
    """Estimate the memory of one GPU of a run."""
    strategy, config, share = spread.strategy, spread.config, spread.split
    is_ddp = strategy.kind is StrategyKind.DDP
    conduct = StepConditions(
        num_samples=-(-share.micro_batch_size // strategy.num_devices),
        in_low_precision=spread.is_rounded,
        # DDP sends gradients in place, and several micro-batches accumulate them.
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
        # After the backward pass, an EMA step allocates a difference of all weights.
        update=max(update, sizes.trained + sizes.averaged) + sends_copies * sizes.trained,
        capture=2 * sizes.changed if captures else 0,
        tries_compiled=captures and config.step.mode == "auto" and not config.cudnn_deterministic,
    )


def _of_shards(sizes: Sizes, update: int, spread: PlannedRun) -> Footprint:
    num_shards = spread.strategy.num_shards
    kept = (sizes.weights + sizes.averaged) // num_shards
    travelling = sizes.outside + GATHERED * sizes.largest_unit
    # Gradients are reduced in full precision, whatever the precision of gathered weights.
    gathered = (travelling // 2 if spread.is_rounded else travelling) + sizes.largest_unit
    return Footprint(
        weights=kept + gathered,
        optimizer=sizes.remembered // num_shards,
        update=update + sizes.trained // num_shards,
        capture=0,
    )


def bytes_of(tensors: Iterable[Tensor]) -> int:
    """Memory of tensors on a GPU."""
    return sum(in_blocks(each.numel() * each.element_size()) for each in tensors)


@dataclass(frozen=True)
class Disk:
    """Disk space of a run's checkpoints."""

    checkpoint_bytes: int
    num_checkpoints: int  # Those that are there at a time, at most.

    @property
    def most_bytes(self) -> int:
        """Total size of all checkpoints."""
        return self.checkpoint_bytes * self.num_checkpoints


def checkpoint_disk(sizes: Sizes, config: TrainConfig, strategy: Strategy) -> Disk:
    """Estimate the checkpoints of a run, once its budget is resolved."""
    weights = sizes.weights + (sizes.weights if sizes.averaged else 0)
    shards = weights if strategy.saves_shards else 0
    whole = weights if strategy.saves_full else 0
    return Disk(shards + whole + sizes.remembered, num_kept(config))


def num_kept(config: TrainConfig) -> int:
    """Maximum number of checkpoints on disk, including the one being written."""
    if not config.save_checkpoint:
        return 0
    every, steps = config.save_freq, config.num_steps
    saved = -(-steps // every) if every else 1
    if config.keep_last is None:
        return saved
    others = (steps // config.keep_every if config.keep_every else 0) + bool(config.keep_best)
    # The one that a side process evaluates stays until it has a score.
    others += config.keep_best == "success" and config.eval.async_
    return min(saved, config.keep_last + 1 + others)
