"""A policy in training: learning rates, seeds and state around the training step."""

import random

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils import get_total_norm

from manyhands.checkpoint.shards import Shards
from manyhands.checkpoint.snapshot import Position, Snapshot
from manyhands.config.train import TrainConfig
from manyhands.data.loading.stream import BatchSplit
from manyhands.draws.counter import derive_key
from manyhands.lerobot_format.checkpoint import ScheduleState, TrainingState
from manyhands.parallel.sharded_tensors import local_tensor
from manyhands.policies.build import OWN
from manyhands.rng import derive_seed
from manyhands.training.setup.batch import lr_factor
from manyhands.training.step.auto_compile import build_executor
from manyhands.training.step.learner_state import LearnerState
from manyhands.training.step.lr_schedule import LrSchedule, schedule_factor
from manyhands.training.step.train_step import StepInputs, StepMetrics, TensorsByName, TrainStep
from manyhands.types import Batch


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

    def __init__(self, step: TrainStep, config: TrainConfig) -> None:
        assert config.optimizer is not None
        self.step = step
        self.config = config
        self.policy, self.optimizer, self.ema = step.policy, step.optimizer, step.ema
        scale = lr_factor(config.scaling, step.split.samples_per_step)
        curve = schedule_factor(config.scheduler, config.num_steps, scale * config.optimizer.lr)
        self._schedule = LrSchedule(self.optimizer, curve, scale)
        self.memory = LearnerState(self.policy.network, self.optimizer, self.ema, step.world)
        self._seeds_host = uses_host_rng(self.policy.config.type)
        self._messages: list[str] = []
        self._executor = build_executor(config, self.step, self._messages.append)

    @property
    def split(self) -> BatchSplit:
        """This rank's slice of every global batch."""
        return self.step.split

    @property
    def lr(self) -> float:
        """The learning rate of the last step."""
        return self._schedule.current[0]

    def train_step(self, batch: Batch, step: int) -> StepMetrics:
        """Run one training step; return device tensors without synchronization."""
        self.begin_step(step)
        # A captured step needs inputs of one shape, the same on all ranks.
        batch = self.policy.tokenized(batch, at_full_length=self.policy.device.type == "cuda")
        tensors = {name: value for name, value in batch.items() if isinstance(value, Tensor)}
        inputs = StepInputs(tensors, self._keys(step))
        return self._executor(inputs, self.config.num_steps - step - 1)

    def begin_step(self, step: int) -> None:
        """Set the learning rates, the EMA decay and the seeds of a step."""
        self._schedule.apply(step)
        self.ema.prepare(step + 1)
        torch.manual_seed(derive_seed(self.config.seed, "dropout", step, self.split.rank))
        if self._seeds_host:
            seed_host_rng(derive_seed(self.config.seed, "host", step, self.split.rank))

    def draws(self, step: int) -> dict[str, Tensor]:
        """The random numbers that the network reads for this rank's samples in a step."""
        return self.step.draws(self._keys(step))

    def augmentation_draws(self, step: int) -> dict[str, Tensor]:
        """The random numbers that transform the images of this rank's samples in a step."""
        return self.step.augmentation_draws(self._keys(step))

    def _keys(self, step: int) -> TensorsByName:
        """The keys of a step's draws by stream, copied to the device asynchronously."""
        keys = {name: derive_key(self.config.seed, name, step) for name in ("draws", "augment")}
        return {name: to_device_async(key, self.policy.device) for name, key in keys.items()}

    @property
    def mode(self) -> str:
        """The current step mode."""
        return self._executor.mode

    def close(self) -> None:
        """Stop background work."""
        self._executor.close()

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
        weights = self.memory.policies()
        policies = {folder: self.policy.files(each or {}) for folder, each in weights.items()}
        return Snapshot(policies, state, self.memory.shards())

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
            scaler=self.step.engine.scaler_state(),
            samples_per_step=self.split.samples_per_step,
            is_sharded=self.step.world.strategy.saves_shards,
        )

    def load_training_state(self, state: TrainingState, shards: Shards | None = None) -> list[str]:
        """Load a saved state, with this run's hyper-parameters; return warnings to log."""
        self.memory.load_optimizer(state.optimizer, shards)
        self._executor.release()
        self.step.engine.load_scaler_state(state.scaler)
        before, now = state.samples_per_step, self.split.samples_per_step
        if before in (0, now):
            return []
        return [
            f"WARNING: the effective batch changed from {before} to {now} samples; data continues "
            "at its position, learning rates and steps follow the flags"
        ]


def to_device_async(value: Tensor, device: torch.device) -> Tensor:
    """Copy a tensor to a device asynchronously."""
    # Only copies from pinned memory are asynchronous.
    return value.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else value
