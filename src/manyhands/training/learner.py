"""One optimizer update, exact over any number of ranks.

The loss is the mean over the valid entries of the global batch: entries are counted over all ranks
before the forward pass, and each rank adds its part. Random draws are made for the global batch and
cut, so that sample k gets the same noise wherever it is computed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor
from torch.optim import Optimizer

from manyhands.checkpoint.store import Position
from manyhands.config.train import TrainConfig
from manyhands.data.augment.augmentation import augmentation_of
from manyhands.data.loading.stream import Share
from manyhands.errors import CheckpointError
from manyhands.lerobot_format.checkpoint import ScheduleState, TrainingState
from manyhands.lerobot_format.policy import load_weights
from manyhands.parallel.accelerated import AcceleratedEngine
from manyhands.parallel.world import World
from manyhands.policies.loss import loss_of
from manyhands.policies.policy import Policy
from manyhands.rng import derive_seed
from manyhands.training.optim import Schedule, build_optimizer, schedule_factor
from manyhands.types import Batch, Network


@dataclass(frozen=True)
class UpdateResult:
    """What an update measured, still on the device."""

    terms: dict[str, Tensor]
    """This rank's parts of the loss and its terms; summed over ranks they are the global means."""
    grad_norm: Tensor
    lr: float


class Learner:
    """A policy and all that changes its weights."""

    def __init__(
        self,
        policy: Policy,
        config: TrainConfig,
        engine: AcceleratedEngine,
        world: World,
        share: Share,
    ) -> None:
        assert config.optimizer is not None
        self.policy = policy
        self.config = config
        self.share = share
        self._engine = engine
        self._world = world
        self._max_grad_norm = config.optimizer.grad_clip_norm
        self._augmentation = augmentation_of(
            config.dataset.image_transforms, policy.config.input_features
        )
        # The network as its policy knows it; the engine wraps it for training.
        self._bare_network = cast(Network, policy.network)
        self._bare_optimizer = build_optimizer(
            config.optimizer, self._bare_network.parameter_groups()
        )
        self._schedule = Schedule(
            self._bare_optimizer, schedule_factor(config.scheduler, config.steps)
        )
        self._network, self._optimizer = engine.prepare(policy.network, self._bare_optimizer)
        self._network.train()

    def update(self, batch: Batch, step: int) -> UpdateResult:
        """Make one optimizer update; return device tensors, read none of them."""
        lr = self._schedule.apply(step)
        inputs = self.policy.prepare(self._augmentation(batch, self.augmentation_draws(step)))
        counts = self._global_counts(inputs)
        torch.manual_seed(derive_seed(self.config.seed, "dropout", step, self.share.rank))
        measured: list[dict[str, Tensor]] = []
        for part in self._engine.micro_batches({"inputs": inputs, "draws": self.draws(step)}):
            loss, means = loss_of(self._network(part["inputs"], part["draws"]), counts)
            # DDP averages gradients over ranks; the gradient of the global mean is their sum.
            self._engine.backward(loss * self.share.num_ranks)
            measured.append({"loss": loss.detach(), **means})
        grad_norm = self._engine.clip_gradients(self._max_grad_norm)
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        return UpdateResult(sum_of(measured), grad_norm, lr)

    def _global_counts(self, inputs: Batch) -> dict[str, Tensor]:
        counts = self._bare_network.entry_counts(inputs)
        totals = self._world.sum(torch.stack(list(counts.values())))
        return dict(zip(counts, totals.unbind(), strict=True))

    def draws(self, step: int) -> dict[str, Tensor]:
        """This rank's part of the random numbers that the global batch of an update uses."""
        return self._own_part("draws", step, self._bare_network.draw)

    def augmentation_draws(self, step: int) -> dict[str, Tensor]:
        """This rank's part of the random numbers that transform the images of the global batch."""
        return self._own_part("augment", step, self._augmentation.draw)

    def _own_part(
        self, stream: str, step: int, draw: Callable[[int, torch.Generator], dict[str, Tensor]]
    ) -> dict[str, Tensor]:
        generator = torch.Generator().manual_seed(derive_seed(self.config.seed, stream, step))
        draws = draw(self.share.samples_per_step, generator)
        first = self.share.rank * self.share.samples_per_rank
        own = slice(first, first + self.share.samples_per_rank)
        return {name: value[own].to(self.policy.device) for name, value in draws.items()}

    def save_policy(self, folder: Path) -> None:
        """Write the policy as it is now."""
        self.policy.save(folder)

    def load_policy(self, folder: Path) -> None:
        """Take the weights of a saved policy."""
        load_weights(self.policy.network, folder)

    def training_state(self, position: Position) -> TrainingState:
        """Everything beside the weights that this learner needs to go on from a position."""
        rates = ScheduleState(self._schedule.base_lrs, self._schedule.rates(position.step))
        return TrainingState(
            step=position.step,
            samples=position.samples,
            num_ranks=self.share.num_ranks,
            batch_size=self.config.batch_size,
            accumulation=self.share.samples_per_rank // self.config.batch_size,
            optimizer=self._bare_optimizer.state_dict(),
            schedule=rates if self.config.scheduler is not None else None,
            scaler=self._engine.scaler_state(),
        )

    def load_training_state(self, state: TrainingState) -> None:
        """Go on from a saved state; hyper-parameters stay as this run's config says."""
        check_fits(self._bare_optimizer, state.optimizer)
        groups = self._bare_optimizer.state_dict()["param_groups"]
        self._bare_optimizer.load_state_dict(
            {"state": state.optimizer["state"], "param_groups": groups}
        )
        self._engine.load_scaler_state(state.scaler)


def check_fits(optimizer: Optimizer, saved: dict[str, Any]) -> None:
    """Refuse an optimizer's saved state that belongs to another kind or to other weights."""
    settings = [
        set(group) - {"initial_lr"} for group in (optimizer.param_groups + saved["param_groups"])
    ]
    if any(names != settings[0] for names in settings):
        raise CheckpointError(
            "the checkpoint was made with another optimizer; resume with its --optimizer.type"
        )
    parameters = [each for group in optimizer.param_groups for each in group["params"]]
    for index, values in saved["state"].items():
        fits = index < len(parameters) and all(
            value.ndim == 0 or value.shape == parameters[index].shape for value in values.values()
        )
        if not fits:
            raise CheckpointError(
                f"the checkpoint's optimizer state {index} fits no weight of this policy: it was "
                "saved by a run of another policy"
            )


def sum_of(measured: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """The measures of all micro-batches together."""
    return {name: torch.stack([part[name] for part in measured]).sum() for name in measured[0]}
