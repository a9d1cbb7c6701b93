"""One training step, exact over any number of ranks.

The loss is the mean over the valid entries of the global batch: entries are counted over all ranks
before the forward pass, and each rank adds its sum. Random draws are a function of the step and of
the sample's position in the global batch, so that a sample gets the same noise on any rank.
"""

import random
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils import get_total_norm

from manyhands.checkpoint.shards import Shards
from manyhands.checkpoint.snapshot import Position, Snapshot
from manyhands.config.train import TrainConfig
from manyhands.data.augment.augmentation import build_augmentation
from manyhands.data.loading.stream import BatchSplit
from manyhands.draws.counter import CounterSource, derive_key
from manyhands.errors import UserError
from manyhands.lerobot_format.checkpoint import ScheduleState, TrainingState
from manyhands.parallel.optimizer_step import tensors_of
from manyhands.parallel.sharded_tensors import local_tensor
from manyhands.parallel.world import World
from manyhands.policies.build import OWN
from manyhands.policies.policy import Policy, weighted_loss
from manyhands.rng import derive_seed
from manyhands.training.setup.batch import lr_factor
from manyhands.training.step.auto_compile import build_step
from manyhands.training.step.ema import build_ema
from manyhands.training.step.executors import StepWork
from manyhands.training.step.learner_state import LearnerState
from manyhands.training.step.lr_schedule import LrSchedule, schedule_factor
from manyhands.training.step.optimizer import build_optimizer
from manyhands.training.step.state_backup import Buffers, Tensors
from manyhands.training.step.train_step import StepInputs, StepMetrics, TensorsByName
from manyhands.types import Batch, Engine, Network


# Policies of this package draw from neither; third-party policies may. Seeding both takes about 50
# microseconds, which only runs of third-party policies need.
def uses_host_rng(policy_type: str) -> bool:
    """Whether a policy may draw from global generators: only third-party policies do."""
    return policy_type not in OWN


def seed_host_rng(seed: int) -> None:
    """Seed the global generators of Python and NumPy."""
    random.seed(seed)
    # A single 32-bit number is the fastest of the seeds that NumPy takes.
    np.random.seed(seed % 2**32)


class Learner:
    """A policy with its optimizer, schedule, EMA and engine."""

    def __init__(
        self,
        policy: Policy,
        config: TrainConfig,
        engine: Engine,
        world: World,
        split: BatchSplit,
    ) -> None:
        assert config.optimizer is not None
        self.policy = policy
        self.config = config
        self.split = split
        self._engine = engine
        self._world = world
        self._max_grad_norm = config.optimizer.grad_clip_norm
        self._augmentation = build_augmentation(
            config.dataset.image_transforms, policy.config.recorded_features
        )
        # The network as its policy knows it; the engine wraps it for training.
        self._bare_network = cast(Network, policy.network)
        self._network = engine.prepare(policy.network)
        self._network.train()
        self.optimizer = build_optimizer(config.optimizer, self._bare_network.parameter_groups())
        scale = lr_factor(config.scaling, split.samples_per_step)
        curve = schedule_factor(config.scheduler, config.num_steps, scale * config.optimizer.lr)
        self._schedule = LrSchedule(self.optimizer, curve, scale)
        self.ema = build_ema(config.ema, policy.network)
        self._buffers = Buffers(policy.network)
        self.memory = LearnerState(policy.network, self.optimizer, self.ema, world)
        self._all_take_part = False
        self._seeds_host = uses_host_rng(policy.config.type)
        self._messages: list[str] = []
        self.work = StepWork(self._compute, self._changed, policy, split, world)
        self._step = build_step(config, self.work, self.optimizer, self._messages.append)

    @property
    def lr(self) -> float:
        """The learning rate of the last step."""
        return self._schedule.current[0]

    def update(self, batch: Batch, step: int) -> StepMetrics:
        """Run one training step; return device tensors without synchronization."""
        self.begin_step(step)
        # A captured step needs inputs of one shape, the same on all ranks.
        batch = self.policy.tokenized(batch, at_full_length=self.policy.device.type == "cuda")
        tensors = {name: value for name, value in batch.items() if isinstance(value, Tensor)}
        inputs = StepInputs(tensors, self._keys(step))
        return self._step(inputs, self.config.num_steps - step - 1)

    def begin_step(self, step: int) -> None:
        """Set the learning rates, the EMA decay and the seeds of a step."""
        self._schedule.apply(step)
        self.ema.prepare(step + 1)
        torch.manual_seed(derive_seed(self.config.seed, "dropout", step, self.split.rank))
        if self._seeds_host:
            seed_host_rng(derive_seed(self.config.seed, "host", step, self.split.rank))

    def _compute(self, given: StepInputs) -> StepMetrics:
        """The device work of a step; the host reads no value."""
        batch = self._prepared(given)
        counts = self._global_counts(batch["inputs"])
        self._buffers.keep()
        measured: list[dict[str, Tensor]] = []
        for part in self._engine.micro_batches(batch):
            loss, means = weighted_loss(self._network(part["inputs"], part["draws"]), counts)
            # DDP averages gradients over ranks; the gradient of the global mean is their sum. A
            # non-finite loss may have finite gradients: times zero, it makes them NaN for all.
            self._engine.backward(loss * (self.split.num_ranks + 0 * loss.detach()))
            measured.append({"loss": loss.detach(), **means})
        if not self._all_take_part:
            reject_unused_parameters(self.policy.network)
            self._all_take_part = True
        grad_norm = self._engine.step(self.optimizer, self._max_grad_norm)
        self.optimizer.zero_grad(set_to_none=True)
        is_sound = grad_norm.isfinite()
        self._buffers.restore_unless(is_sound)
        self.ema.follow(is_sound)
        terms = sum_of(measured)
        is_fine = terms["loss"].isfinite() & (is_sound | self._engine.scales_losses)
        return StepMetrics(terms, grad_norm, ~is_fine)

    def _changed(self) -> Tensors:
        """Every tensor that a step changes."""
        others = (*self._buffers.tensors, *self.ema.averages, *self._engine.changed)
        return {**tensors_of(self.optimizer), **dict(enumerate(others))}

    def _global_counts(self, inputs: Batch) -> dict[str, Tensor]:
        counts = self._bare_network.entry_counts(inputs)
        totals = self._world.sum(torch.stack(list(counts.values())))
        return dict(zip(counts, totals.unbind(), strict=True))

    def _prepared(self, given: StepInputs) -> Batch:
        """The network inputs: this rank's samples, augmented and normalized, and its draws."""
        seen = self._augmentation(given.batch, self._augmentation_draws(given.keys))
        return {"inputs": self.policy.prepare(seen), "draws": self._draws(given.keys)}

    def draws(self, step: int) -> dict[str, Tensor]:
        """The random numbers that the network reads for this rank's samples in a step."""
        return self._draws(self._keys(step))

    def augmentation_draws(self, step: int) -> dict[str, Tensor]:
        """The random numbers that transform the images of this rank's samples in a step."""
        return self._augmentation_draws(self._keys(step))

    def _draws(self, keys: TensorsByName) -> dict[str, Tensor]:
        return self.policy.cast(self._bare_network.draw(self._source(keys["draws"])))

    def _augmentation_draws(self, keys: TensorsByName) -> dict[str, Tensor]:
        return self._augmentation.draw(self._source(keys["augment"]))

    def _source(self, key: Tensor) -> CounterSource:
        own = self.split.own
        return CounterSource(key, torch.arange(own.start, own.stop, device=key.device))

    def _keys(self, step: int) -> TensorsByName:
        """The keys of a step's draws by stream, copied to the device asynchronously."""
        keys = {name: derive_key(self.config.seed, name, step) for name in ("draws", "augment")}
        return {name: to_device_async(key, self.policy.device) for name, key in keys.items()}

    @property
    def mode(self) -> str:
        """The current step mode."""
        return self._step.mode

    def close(self) -> None:
        """Stop background work."""
        self._step.close()

    def messages(self) -> list[str]:
        """Messages about the step mode since the last call."""
        messages = self._messages.copy()
        self._messages.clear()
        return messages

    def max_abs_weight(self) -> Tensor:
        """The largest absolute weight of this rank, on the device; NaN if any is NaN."""
        weights = [local_tensor(each.detach()) for each in self.policy.network.parameters()]
        return get_total_norm([each for each in weights if each.numel() > 0], torch.inf)

    def snapshot(self, position: Position) -> Snapshot:
        """Collective. Everything this learner needs to resume from a position."""
        state = self._training_state(position)
        return Snapshot(self.memory.policies(), state, self.memory.parts())

    def save_policy(self, folder: Path, weights: Mapping[str, Tensor] | None) -> None:
        """Write the policy with the weights of a snapshot; with None all other files."""
        self.policy.save(folder, weights or {})

    def _training_state(self, position: Position) -> TrainingState:
        rates = ScheduleState(self._schedule.base_lrs, self._schedule.rates(position.step))
        return TrainingState(
            step=position.step,
            samples=position.samples,
            num_ranks=self.split.num_ranks,
            batch_size=self.split.micro_batch_size,
            accumulation=self.split.num_micro_batches,
            optimizer=self.memory.optimizer_state(self._schedule.current),
            schedule=rates if self.config.scheduler is not None else None,
            scaler=self._engine.scaler_state(),
            samples_per_step=self.split.samples_per_step,
            is_sharded=self._world.strategy.saves_shards,
        )

    def load_training_state(self, state: TrainingState, shards: Shards | None = None) -> list[str]:
        """Load a saved state, with this run's hyper-parameters; return warnings to log."""
        self.memory.load_optimizer(state.optimizer, shards)
        self._step.release()
        self._engine.load_scaler_state(state.scaler)
        before, now = state.samples_per_step, self.split.samples_per_step
        if before in (0, now):
            return []
        return [
            f"WARNING: the effective batch changed from {before} to {now} samples; data continues "
            "at its position, learning rates and steps follow the flags"
        ]


def reject_unused_parameters(network: nn.Module) -> None:
    """Reject trainable parameters without a gradient; the error names them."""
    idle = [
        name
        for name, weight in network.named_parameters()
        if weight.requires_grad and weight.grad is None
    ]
    if idle:
        raise UserError(
            f"the loss does not depend on these trainable parameters: {', '.join(idle)}. Ranks "
            "cannot keep them in sync. Use them in the network's forward pass, or call "
            "requires_grad_(False) on them"
        )


def to_device_async(value: Tensor, device: torch.device) -> Tensor:
    """Copy a tensor to a device asynchronously."""
    # Only copies from pinned memory are asynchronous.
    return value.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else value


def sum_of(measured: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """The sum of the measures of all micro-batches."""
    return {name: torch.stack([part[name] for part in measured]).sum() for name in measured[0]}
