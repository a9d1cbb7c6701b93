"""One optimizer step on the device, exact over any number of ranks, without synchronization.

The loss is the mean over the valid entries of the global batch: entries are counted over all ranks
before the forward pass, and each rank adds its terms. Random draws are a function of the step and
of the sample's position in the global batch, so that a sample gets the same noise on any rank.
"""

from collections.abc import Callable
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from manyhands.config.train import TrainConfig
from manyhands.data.augment.augmentation import build_augmentation
from manyhands.data.loading.stream import BatchSplit
from manyhands.draws.counter import CounterSource
from manyhands.errors import UserError
from manyhands.parallel.optimizer_step import tensors_of
from manyhands.parallel.world import World
from manyhands.policies.policy import Policy, weighted_loss
from manyhands.training.step.ema import build_ema
from manyhands.training.step.optimizer import build_optimizer
from manyhands.training.step.state_backup import Buffers, Tensors
from manyhands.types import Batch, Engine, Network

TensorsByName = dict[str, Tensor]


class StepInputs(NamedTuple):
    """Everything that differs between two steps, except learning rates and seeds."""

    batch: TensorsByName
    """Raw values of this rank's samples."""
    keys: TensorsByName
    """Key of every stream of random draws."""

    def mapped(self, change: Callable[[Tensor], Tensor]) -> "StepInputs":
        """The inputs with every tensor changed."""
        return StepInputs(
            *({name: change(value) for name, value in group.items()} for group in self.groups)
        )

    @property
    def groups(self) -> tuple[TensorsByName, ...]:
        """The inputs by purpose."""
        return self.batch, self.keys


class StepMetrics(NamedTuple):
    """The metrics of a step, still on the device."""

    terms: TensorsByName
    """Loss and terms of this rank; their sums over ranks are the global means."""
    grad_norm: Tensor
    is_bad: Tensor
    """Whether loss or gradients are non-finite on this rank; the step then changed nothing."""


StepFunction = Callable[[StepInputs], StepMetrics]
"""Runs a step."""


class TrainStep:
    """A policy, its optimizer and EMA, and the computation of one step."""

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
        self.engine = engine
        self.world = world
        self.split = split
        self._max_grad_norm = config.optimizer.grad_clip_norm
        self._augmentation = build_augmentation(
            config.dataset.image_transforms, policy.config.recorded_features
        )
        # The policy's own network; the engine wraps it for training.
        self._bare_network = cast(Network, policy.network)
        self._network = engine.prepare(policy.network)
        self._network.train()
        self.optimizer = build_optimizer(config.optimizer, self._bare_network.parameter_groups())
        self.ema = build_ema(config.ema, policy.network)
        self._buffers = Buffers(policy.network)
        self._gradients_checked = False

    def __call__(self, inputs: StepInputs) -> StepMetrics:
        """Collective. Run a step; the host reads no value of it."""
        batch = self._prepared(inputs)
        counts = self._global_counts(batch["inputs"])
        self._buffers.keep()
        measured: list[dict[str, Tensor]] = []
        for micro_batch in self.engine.micro_batches(batch):
            terms = self._network(micro_batch["inputs"], micro_batch["draws"])
            loss, means = weighted_loss(terms, counts)
            # DDP averages gradients over ranks; the gradient of the global mean is their sum. That
            # of a non-finite loss may be finite: loss * 0 makes it non-finite on all ranks.
            self.engine.backward(loss * (self.split.num_ranks + 0 * loss.detach()))
            measured.append({"loss": loss.detach(), **means})
        if not self._gradients_checked:
            reject_unused_parameters(self.policy.network)
            self._gradients_checked = True
        grad_norm = self.engine.step(self.optimizer, self._max_grad_norm)
        self.optimizer.zero_grad(set_to_none=True)
        is_sound = grad_norm.isfinite()
        self._buffers.restore_unless(is_sound)
        self.ema.follow(is_sound)
        terms = sum_of(measured)
        is_fine = terms["loss"].isfinite() & (is_sound | self.engine.scales_losses)
        return StepMetrics(terms, grad_norm, ~is_fine)

    def state_tensors(self) -> Tensors:
        """Every tensor that a step changes."""
        others = (*self._buffers.tensors, *self.ema.averages, *self.engine.changed)
        return {**tensors_of(self.optimizer), **dict(enumerate(others))}

    def draws(self, keys: TensorsByName) -> dict[str, Tensor]:
        """The random numbers that the network reads for this rank's samples."""
        return self.policy.cast(self._bare_network.draw(self._source(keys["draws"])))

    def augmentation_draws(self, keys: TensorsByName) -> dict[str, Tensor]:
        """The random numbers that transform the images of this rank's samples."""
        return self._augmentation.draw(self._source(keys["augment"]))

    def _prepared(self, inputs: StepInputs) -> Batch:
        """The inputs of the network: this rank's samples, augmented and normalized, and draws."""
        images = self._augmentation(inputs.batch, self.augmentation_draws(inputs.keys))
        return {"inputs": self.policy.prepare(images), "draws": self.draws(inputs.keys)}

    def _global_counts(self, inputs: Batch) -> dict[str, Tensor]:
        counts = self._bare_network.entry_counts(inputs)
        totals = self.world.sum(torch.stack(list(counts.values())))
        return dict(zip(counts, totals.unbind(), strict=True))

    def _source(self, key: Tensor) -> CounterSource:
        own = self.split.own
        return CounterSource(key, torch.arange(own.start, own.stop, device=key.device))


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


def sum_of(measured: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """The sum of the metrics of all micro-batches."""
    return {name: torch.stack([part[name] for part in measured]).sum() for name in measured[0]}
