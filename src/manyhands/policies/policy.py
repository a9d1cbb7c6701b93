"""A network with its processors: raw values in, raw values out."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import cast

import torch
from torch import Tensor, nn

from manyhands.config.policies.base import PolicyConfig
from manyhands.draws.generator import GeneratorSource
from manyhands.errors import UserError
from manyhands.lerobot_format.names import LANGUAGE_TOKENS
from manyhands.lerobot_format.policy.folder import PolicyFiles, Settings, saved_tensors
from manyhands.lerobot_format.policy.processors import Processors
from manyhands.policies.acting import ObservationWindow, action_plan
from manyhands.policies.captured_prediction import CapturedPrediction
from manyhands.policies.language import Language
from manyhands.policies.normalize import Normalizer
from manyhands.types import VISION_TOKENS, Batch, Draws, LossTerms, Network


def weighted_loss(
    terms: LossTerms, counts: Mapping[str, Tensor]
) -> tuple[Tensor, dict[str, Tensor]]:
    """The weighted sum of the terms' means, and the means."""
    # With the counts of a larger batch, the results are a micro-batch's contributions to its means.
    means = {name: term.total / counts[name].clamp(min=1) for name, term in terms.items()}
    loss = torch.stack([terms[name].weight * mean for name, mean in means.items()]).sum()
    return loss, {name: mean.detach() for name, mean in means.items()}


class Policy:
    """A policy: losses of raw batches, raw actions for raw observations, saving."""

    def __init__(self, config: PolicyConfig, network: nn.Module, processors: Processors) -> None:
        self.config = config
        self.network = network
        self.processors = processors
        self.adapters: Settings | None = None
        """Settings of the network's adapters, if it has some: only they are trained."""
        self.dtype = torch.float32
        # Compute device; sharded weights may be stored elsewhere.
        self.device = next(network.parameters()).device
        self._window = ObservationWindow(config.observation_offsets)
        self._plan = action_plan(config)
        self._captured: CapturedPrediction | None = None
        self._normalizer = Normalizer(processors.inputs)
        self._unnormalizer = Normalizer(processors.outputs)
        self._language = Language(processors.tokenizing) if processors.tokenizing else None

    def __repr__(self) -> str:
        size = sum(weight.numel() for weight in self.network.parameters())
        return f"Policy({self.config.type}, {size:,} parameters, {self.device})"

    def to(self, device: torch.device | str, dtype: torch.dtype | None = None) -> "Policy":
        """Move the network and its processors; cast them if a dtype is given."""
        # A network may have weights of several dtypes; only an explicit dtype unifies them.
        is_other = dtype not in (None, self.dtype)
        self.dtype = dtype or self.dtype
        self.network.to(device=device, dtype=dtype if is_other else None)
        self.device = next(self.network.parameters()).device
        # Graphs read the weights where they were.
        self._captured = None
        self._normalizer.to(self.device, self.dtype)
        self._unnormalizer.to(self.device, self.dtype)
        return self

    def cast(self, draws: Draws) -> dict[str, Tensor]:
        """Random numbers in the dtype of this policy; integers are unchanged."""
        return {
            name: value.to(self.dtype) if value.is_floating_point() else value
            for name, value in draws.items()
        }

    def train(self) -> "Policy":
        """Switch the network to training mode."""
        self.network.train()
        return self

    def eval(self) -> "Policy":
        """Switch the network to evaluation mode."""
        self.network.eval()
        return self

    def training_loss(
        self, batch: Batch, draws: Draws | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss of a raw batch in the network's current mode, and its terms by name."""
        prepared = self.prepare(self._renamed(batch))
        source = GeneratorSource(len(prepared["action"]), device=self.device)
        # LeRobot's loss of a latent policy is that of predictions unless it is training.
        predicts = getattr(self.network, "has_latent", False) and not self.network.training
        drawn = ({} if predicts else self._network.draw(source)) | dict(draws or {})
        terms = self._network(prepared, self._on_device(self.cast(drawn)))
        return weighted_loss(terms, self._network.entry_counts(prepared))

    def predict_action_chunk(self, observation: Batch, draws: Draws | None = None) -> Tensor:
        """Predict the raw actions (samples, steps, action) for an observation, on the CPU.

        A policy that looks back reads its observations stacked on a time axis, the latest last.
        """
        with evaluating(self.network):
            prepared = self.prepare_observation(self._renamed(observation))
            return self._unnormalizer.inverse("action", self._predict(prepared, draws)).cpu()

    def select_action(self, observation: Batch, draws: Draws | None = None) -> Tensor:
        """The raw action (samples, action) of this control tick, on the CPU.

        Call it at every tick with the latest observation alone; the policy stores its history.
        """
        with evaluating(self.network):
            self._window.push(self._prepare(self._renamed(observation), self._frame_shapes()))
            action = self._plan.next_action(lambda: self._predict(self._window.contents(), draws))
            return self._unnormalizer.inverse("action", action).cpu()

    def reset(self) -> None:
        """Reset observations and planned actions; call it at the start of an episode."""
        self._window.reset()
        self._plan.reset()

    def save(self, folder: Path | str) -> None:
        """Write the policy as a folder that LeRobot loads."""
        self.files(saved_tensors(self.network)).write(Path(folder))

    def files(self, weights: Mapping[str, Tensor]) -> PolicyFiles:
        """What a folder of this policy holds, with these weights."""
        config = replace(self.config, device=self.device.type)
        return PolicyFiles(config, self.processors, weights, self.adapters)

    def tokenized(self, batch: Batch, at_full_length: bool = False) -> Batch:
        """A batch with its tasks as tokens, where the policy reads them and they are not yet."""
        # At full length, batches of any tasks have one shape.
        if self._language is None or LANGUAGE_TOKENS in batch:
            return batch
        return batch | self._on_device(self._language.tokens_of(batch, at_full_length))

    @property
    def arriving_names(self) -> dict[str, str]:
        """The name under which each input arrives: another one where a rename map has it."""
        others = {name: key for key, name in self.processors.rename_map.items()}
        return {name: others.get(name, name) for name in self.config.recorded_features}

    def check_language(self) -> None:
        """Reject missing tokenizer files before the first task is read."""
        if self._language is not None:
            self._language.check()

    def normalized(self, name: str, values: Tensor) -> Tensor:
        """Raw values of one feature, under the policy's own name, as the network reads them."""
        normalized: Tensor = self._normalizer.forward(self._on_device({name: values}))[name]
        return normalized

    def prepare(self, batch: Batch) -> Batch:
        """A raw training batch, in the policy's own names, as the network reads it."""
        num_steps = len(self.config.action_offsets)
        action_shape = self.config.output_features["action"].shape
        actions = {"action": (num_steps, *action_shape), "action_is_pad": (num_steps,)}
        return self._prepare(batch, self._observation_shapes() | actions)

    def prepare_observation(self, observation: Batch) -> Batch:
        """A raw observation, in the policy's own names, as the network reads it."""
        return self._prepare(observation, self._observation_shapes())

    def _prepare(self, batch: Batch, shapes: dict[str, tuple[int, ...]]) -> Batch:
        present = {key: value for key, value in batch.items() if value is not None}
        lacking = {
            name for name in shapes if name not in present and self.config.is_optional_input(name)
        }
        check_shapes(present, {name: shapes[name] for name in shapes if name not in lacking})
        return self._normalizer.forward(self._on_device(self.tokenized(present)))

    def _predict(self, prepared: Batch, draws: Draws | None) -> Tensor:
        given = self._on_device(self.cast(draws or {}))
        if self.device.type != "cuda":
            return self._network.predict(prepared, given)
        if self._captured is None or self._captured.network is not self._network:
            self._captured = CapturedPrediction(self._network)
        return self._captured(prepared, given)

    @property
    def _network(self) -> Network:
        return cast(Network, self.network)

    def _renamed(self, batch: Batch) -> Batch:
        renamed, rename_map = {}, self.processors.rename_map
        for key, value in batch.items():
            # A key may be the mask or the vision tokens of its feature.
            name = key.removesuffix("_is_pad").removesuffix("_padding_mask")
            name = name.removesuffix(VISION_TOKENS)
            renamed[rename_map.get(name, name) + key[len(name) :]] = value
        return renamed

    def _on_device(self, values: Batch) -> Batch:
        device = self.device
        return {
            key: value.to(device, non_blocking=True) if isinstance(value, Tensor) else value
            for key, value in values.items()
        }

    def _frame_shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: item.shape for name, item in self.config.input_features.items()}

    def _observation_shapes(self) -> dict[str, tuple[int, ...]]:
        offsets = self.config.observation_offsets
        time = () if offsets is None else (len(offsets),)
        return {name: time + shape for name, shape in self._frame_shapes().items()}


def check_shapes(batch: Batch, shapes: dict[str, tuple[int, ...]]) -> None:
    """Reject a batch that lacks a feature or has it in another shape than the policy expects."""
    # `shapes` are without the leading sample axis.
    missing = [name for name in shapes if name not in batch]
    if missing:
        raise UserError(
            f"the batch lacks {', '.join(missing)}; it has {', '.join(sorted(batch)) or 'nothing'}"
        )
    for name, shape in shapes.items():
        if not isinstance(batch[name], Tensor):
            raise UserError(f"{name} must be a tensor, not {type(batch[name]).__name__}")
        seen = tuple(batch[name].shape)
        if seen[1:] != shape or not seen:
            expected = ", ".join(map(str, ("samples", *shape)))
            hint = "; add a leading sample axis" if seen == shape else ""
            raise UserError(f"{name} has shape {seen}, but the policy expects ({expected}){hint}")


@contextmanager
def evaluating(network: nn.Module) -> Iterator[None]:
    """Run a block without gradients in evaluation mode, then restore the mode."""
    was_training = network.training
    if was_training:
        network.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        if was_training:
            network.train()
