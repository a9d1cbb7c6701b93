"""One optimizer step on the device, exact over any number of ranks, without synchronization.

The loss is the mean over the valid entries of the global batch: entries are counted over all ranks
before the forward pass, and each rank adds its terms. Random draws are a function of the step and
of the sample's position in the global batch, so that a sample gets the same noise on any rank.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, cast

import torch
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from manyhands.config.train import TrainConfig
from manyhands.data.augment.augmentation import build_augmentation
from manyhands.data.loading.stream import BatchSplit
from manyhands.draws.counter import CounterSource
from manyhands.observe.phases import Phases, build_phases
from manyhands.parallel.optimizer_step import tensors_of
from manyhands.parallel.world import World
from manyhands.policies.policy import Policy
from manyhands.training.step.ema import build_ema
from manyhands.training.step.last_gradient import LastGradient
from manyhands.training.step.mean_gradient import MeanGradient, reject_unused_parameters
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
        network = engine.prepare(policy.network)
        network.train()
        self.phases: Phases = build_phases(world.device)
        self._mean_gradient = MeanGradient(engine, network, split.num_ranks, self.begin_phase)
        # FSDP communicates all along, which cannot be told from computing.
        self._all_reduces = isinstance(network, DistributedDataParallel)
        weights = policy.network.parameters() if self._all_reduces else []
        self._last_gradient = LastGradient(weights, partial(self.begin_phase, "communication"))
        self.optimizer = build_optimizer(config.optimizer, self._bare_network.parameter_groups())
        self.ema = build_ema(config.ema, policy.network)
        self._buffers = Buffers(policy.network)
        self._gradients_checked = False

    def __call__(self, inputs: StepInputs) -> StepMetrics:
        """Collective. Run a step; the host reads no value of it."""
        self.phases.start("forward")
        batch = self._prepared(inputs)
        counts = self._global_counts(batch["inputs"])
        self._buffers.keep()
        terms = self._mean_gradient(batch, counts)
        if not self._gradients_checked:
            reject_unused_parameters(self.policy.network)
            self._last_gradient.settle()
            self._gradients_checked = True
        self.begin_phase("optimizer")
        grad_norm = self.engine.step(self.optimizer, self._max_grad_norm)
        self.optimizer.zero_grad(set_to_none=True)
        is_sound = grad_norm.isfinite()
        self._buffers.restore_unless(is_sound)
        self.ema.follow(is_sound)
        is_fine = terms["loss"].isfinite() & (is_sound | self.engine.scales_losses)
        self.phases.end()
        return StepMetrics(terms, grad_norm, ~is_fine)

    def begin_phase(self, phase: str) -> None:
        """Begin a phase of a step."""
        self.phases.begin(phase)

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
        if self._all_reduces:
            self.begin_phase("communication")
        totals = self.world.sum(torch.stack(list(counts.values())))
        return dict(zip(counts, totals.unbind(), strict=True))

    def _source(self, key: Tensor) -> CounterSource:
        own = self.split.own
        return CounterSource(key, torch.arange(own.start, own.stop, device=key.device))
