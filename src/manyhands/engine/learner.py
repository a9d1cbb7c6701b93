"""A model of one's own in training: its step, and the state that a checkpoint needs."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim import Optimizer

from manyhands.checkpoint.shards import Shards
from manyhands.checkpoint.snapshot import Position, Snapshot
from manyhands.config.runs.run_dir import TRAINING_STATE
from manyhands.engine.own_model import (
    Function,
    OwnModel,
    evaluation_mode,
    loss_terms,
    parameter_names,
    rebind,
    reject_batch_norm,
)
from manyhands.engine.samples import LocalBatch
from manyhands.lerobot_format.checkpoint import TrainingState
from manyhands.lerobot_format.files import read_json, write_tensors
from manyhands.lerobot_format.policy.folder import WEIGHTS_FILE
from manyhands.observe.phases import NoPhases
from manyhands.parallel.world import World
from manyhands.rng import derive_seed
from manyhands.training.step.ema import NoEma
from manyhands.training.step.learner import seed_host_rng
from manyhands.training.step.learner_state import LearnerState
from manyhands.training.step.mean_gradient import MeanGradient, reject_unused_parameters
from manyhands.training.step.optimizer import PLAIN_KERNELS
from manyhands.training.step.state_backup import Buffers
from manyhands.types import Engine

SCHEDULE_FILE = "schedule.json"
OF_THE_PROGRAM = {"params", "foreach", "differentiable", *PLAIN_KERNELS}
"""Settings of parameter groups that a checkpoint does not restore."""


class Schedule(Protocol):
    """A learning-rate schedule of PyTorch, which the program steps itself."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> None: ...


class StepResult(NamedTuple):
    """The result of a training step on the device, the same on all ranks."""

    loss: Tensor  # The mean over the global batch.
    grad_norm: Tensor
    """The norm of all gradients before clipping; a step where it is not finite changed nothing."""


@dataclass(frozen=True)
class ModelFiles:
    """The contents of the weights folder of a checkpoint."""

    weights: Mapping[str, Tensor]

    def write(self, folder: Path) -> None:
        """Write the weights by the names of the model's state dict."""
        folder.mkdir(parents=True, exist_ok=True)
        if self.weights:
            write_tensors(folder / WEIGHTS_FILE, self.weights, metadata={"format": "pt"})

    def without_weights(self) -> "ModelFiles":
        """The same folder without its weights."""
        return replace(self, weights={})


class OwnLearner:
    """A model, its optimizer and its schedule on an engine."""

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        losses: Function,
        engine: Engine,
        world: World,
    ) -> None:
        self.schedule: Schedule | None = None
        reject_batch_norm(model, world.size)
        names = parameter_names(model, optimizer)
        broadcast_weights(model.to(world.device), world)
        self._network = OwnModel(model)
        wrapped = engine.prepare(self._network)
        rebind(optimizer, names, model)
        self.memory = LearnerState(model, optimizer, NoEma(), world)
        self._model = model
        self._optimizer = optimizer
        self._terms = loss_terms(losses)
        self._engine = engine
        self._world = world
        self._gradient = MeanGradient(engine, wrapped, world.size, NoPhases().begin)
        self._buffers = Buffers(model)
        self._gradients_checked = False

    def step(self, batch: LocalBatch, max_grad_norm: float) -> StepResult:
        """Collective. Forward, backward, clip and optimizer step; the host waits for nothing."""
        weights = batch.weights
        inputs = {"weights": weights, "values": batch.values, "function": self._terms}
        self._buffers.keep()
        counts = {"loss": weights.new_full((), batch.num_samples)}
        terms = self._gradient({"inputs": inputs, "draws": {}}, counts)
        if not self._gradients_checked:
            reject_unused_parameters(self._model)
            self._gradients_checked = True
        norm = self._engine.step(self._optimizer, max_grad_norm)
        self._model.zero_grad(set_to_none=True)
        self._buffers.restore_unless(norm.isfinite())
        return StepResult(self._world.sum(terms["loss"]), norm)

    def seed(self, seed: int, step: int) -> None:
        """Seed dropout and other draws of a step on this rank."""
        torch.manual_seed(derive_seed(seed, "dropout", step, self._world.rank))
        seed_host_rng(derive_seed(seed, "host", step, self._world.rank))

    def compute(self, function: Function, values: Any) -> Tensor:
        """Collective for sharded weights. A function of the model, in evaluation mode."""
        batch = {"function": lambda model, _: function(model, values)}
        with evaluation_mode(self._model), self._world.autocast():
            found: Tensor = self._network(batch, {})
            return found

    def snapshot(self, position: Position) -> Snapshot:
        """Collective. Everything this learner needs to resume from a position."""
        weights = self.memory.policies()
        rates = [float(group["lr"]) for group in self._optimizer.param_groups]
        state = TrainingState(
            step=position.step,
            samples=position.samples,
            num_ranks=self._world.size,
            batch_size=0,
            accumulation=1,
            optimizer=self.memory.optimizer_state(rates),
            scaler=self._engine.scaler_state(),
            is_sharded=self._world.strategy.saves_shards,
        )
        files = {folder: ModelFiles(each or {}) for folder, each in weights.items()}
        documents = {} if self.schedule is None else {SCHEDULE_FILE: schedule_state(self.schedule)}
        return Snapshot(files, state, self.memory.shards(), documents=documents)

    def load_training_state(self, state: TrainingState, shards: Shards | None = None) -> list[str]:
        """Load a saved state with its hyper-parameters; return warnings to log: none."""
        self.memory.load_optimizer(state.optimizer, shards)
        pairs = zip(self._optimizer.param_groups, state.optimizer["param_groups"], strict=True)
        for group, saved in pairs:
            for name in saved.keys() - OF_THE_PROGRAM:
                restore_setting(group, name, saved[name])
        self._engine.load_scaler_state(state.scaler)
        return []

    def load_schedule(self, checkpoint: Path) -> None:
        """Load the progress of the schedule, if the checkpoint has one."""
        file = checkpoint / TRAINING_STATE / SCHEDULE_FILE
        if self.schedule is not None and file.exists():
            self.schedule.load_state_dict(self.schedule.state_dict() | read_json(file))


def restore_setting(group: dict[str, Any], name: str, value: Any) -> None:
    """Set a hyper-parameter of a parameter group to its saved value."""
    if isinstance(group.get(name), Tensor):
        # Captured or compiled steps read this tensor.
        group[name].fill_(value)
    else:
        group[name] = tuple(value) if isinstance(group.get(name), tuple) else value


def schedule_state(schedule: Schedule) -> dict[str, Any]:
    """The state of a schedule that JSON can store; everything else is the program's."""
    found = {}
    for name, value in schedule.state_dict().items():
        try:
            is_stored = json.loads(json.dumps(value)) == value
        except TypeError:
            continue
        if is_stored:
            found[name] = value
    return found


@torch.no_grad()
def broadcast_weights(model: nn.Module, world: World) -> None:
    """Collective. Give every rank the parameters and buffers of the main rank."""
    if world.size == 1:
        return
    for value in (*model.parameters(), *model.buffers()):
        dist.broadcast(value, src=0)
