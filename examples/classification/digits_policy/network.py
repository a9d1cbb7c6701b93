"""The same classifier as the scripts train, with the methods of a policy's network."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from digits_policy.config import DigitsConfig
from digits_policy.model import Net
from manyhands.types import Batch, Draws, DrawSource, LossTerm, LossTerms


class DigitsNetwork(nn.Module):
    """Scores of ten classes from the image of a camera."""

    def __init__(self, config: DigitsConfig) -> None:
        super().__init__()
        ((self._camera, feature),) = config.input_features.items()
        self.net = Net(feature.shape[-1], config.has_dropout)

    def predict(self, observation: Batch, draws: Draws) -> Tensor:
        """A chunk (samples, 1, classes) of one action."""
        gray = observation[self._camera].mean(dim=1, keepdim=True)
        logits: Tensor = self.net(gray)
        return logits[:, None]

    def forward(self, batch: Batch, draws: Draws) -> LossTerms:
        """The cross-entropy, summed over samples."""
        logits = self.predict(batch, draws)[:, 0].float()
        losses = functional.cross_entropy(logits, batch["action"][:, 0], reduction="sum")
        return {"cross_entropy": LossTerm(losses, 1.0)}

    def entry_counts(self, batch: Batch) -> dict[str, Tensor]:
        """The number of samples; the loss is the mean over all processes."""
        action = batch["action"]
        return {"cross_entropy": torch.tensor(float(len(action)), device=action.device)}

    def draw(self, source: DrawSource) -> dict[str, Tensor]:
        """Random numbers of a training step; this policy needs none."""
        return {}

    def parameter_groups(self) -> list[dict[str, Any]]:
        """All parameters alike."""
        return [{"params": list(self.parameters())}]
