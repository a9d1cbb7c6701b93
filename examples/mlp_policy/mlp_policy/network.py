"""The network: inputs are normalized, and sums come with the number of entries they add up."""

from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from manyhands.types import Batch, Draws, DrawSource, LossTerm, LossTerms
from mlp_policy.config import MlpConfig


class MlpNetwork(nn.Module):
    """One hidden layer."""

    def __init__(self, config: MlpConfig) -> None:
        super().__init__()
        self._names = list(config.input_features)
        self._chunk = (config.chunk_size, config.output_features["action"].shape[0])
        num_inputs = sum(feature.shape[0] for feature in config.input_features.values())
        first, last = (
            nn.Linear(num_inputs, config.width),
            nn.Linear(config.width, prod(self._chunk)),
        )
        self.layers = nn.Sequential(first, nn.GELU(), last)

    def predict(self, observation: Batch, draws: Draws) -> Tensor:
        """The chunk (samples, steps, action)."""
        state = torch.cat([observation[name] for name in self._names], dim=-1)
        chunk: Tensor = self.layers(state)
        return chunk.unflatten(-1, self._chunk)

    def forward(self, batch: Batch, draws: Draws) -> LossTerms:
        """The squared error, summed over all steps that are not padding."""
        error = (self.predict(batch, draws).float() - batch["action"]).square()
        is_padding = batch["action_is_pad"][..., None]
        return {"mse_loss": LossTerm(error.masked_fill(is_padding, 0).sum(), 1.0)}

    def entry_counts(self, batch: Batch) -> dict[str, Tensor]:
        """How many entries each sum has; the loss is their mean over all processes."""
        num_steps = (~batch["action_is_pad"]).sum(dtype=torch.float32)
        return {"mse_loss": num_steps * batch["action"].shape[-1]}

    def draw(self, source: DrawSource) -> dict[str, Tensor]:
        """Random numbers of a training step; this policy needs none."""
        return {}

    def parameter_groups(self) -> list[dict[str, Any]]:
        """All parameters alike."""
        return [{"params": list(self.parameters())}]
