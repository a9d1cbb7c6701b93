"""Action Chunking with Transformers as a trainable network.

In training the latent is drawn from the posterior of the true actions and pulled towards a standard
normal; in use, and without its noise, it is zero.
"""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from manyhands.config.policies.act import ActConfig
from manyhands.policies.act.model import ActModel
from manyhands.policies.act.transformer import Decoder, DecoderLayer, Encoder, EncoderLayer
from manyhands.policies.vision.resnet import ResNet
from manyhands.types import Batch, Draws, DrawSource, LossTerm, LossTerms


class ActNetwork(nn.Module):
    """ACT's loss and prediction on normalized values."""

    # Layers that FSDP gathers one at a time, and submodules to compile.
    shard_units: ClassVar[tuple[type[nn.Module], ...]] = (EncoderLayer, DecoderLayer)
    compile_units: ClassVar[tuple[type[nn.Module], ...]] = (ResNet, Encoder, Decoder)

    def __init__(self, config: ActConfig) -> None:
        super().__init__()
        self._config = config
        self.model = ActModel(config)

    def forward(self, batch: Batch, draws: Draws) -> LossTerms:
        """Distance to the true actions and, given the latent's noise, its divergence."""
        if "latent_noise" not in draws:
            return {"l1_loss": LossTerm(_distance(self.model(batch), batch), 1.0)}
        mean, log_variance = self.model.posterior(batch)
        latent = mean + torch.exp(log_variance / 2) * draws["latent_noise"]
        distance = _distance(self.model(batch, latent), batch)
        divergence = -0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum()
        return {
            "l1_loss": LossTerm(distance, 1.0),
            "kld_loss": LossTerm(divergence, self._config.kl_weight),
        }

    def entry_counts(self, batch: Batch) -> dict[str, Tensor]:
        """How many entries each term of the loss sums: valid action values, and samples."""
        is_pad, action = batch["action_is_pad"], batch["action"]
        counts = {"l1_loss": (~is_pad).sum(dtype=action.dtype) * action.shape[-1]}
        if self.has_latent:
            counts["kld_loss"] = torch.full_like(counts["l1_loss"], len(action))
        return counts

    def draw(self, source: DrawSource) -> dict[str, Tensor]:
        """The latent's noise."""
        if not self.has_latent:
            return {}
        return {"latent_noise": source.normal(self._config.latent_dim)}

    def predict(self, observation: Batch, draws: Draws) -> Tensor:
        """The chunk (samples, steps, action) for a zero latent; nothing is drawn."""
        chunk: Tensor = self.model(observation)
        return chunk

    def parameter_groups(self) -> list[dict[str, Any]]:
        """All but the image encoder, and the image encoder with its own learning rate."""
        named = list(self.named_parameters())
        backbone = [value for name, value in named if name.startswith("model.backbone.")]
        others = [value for name, value in named if not name.startswith("model.backbone.")]
        return [{"params": others}, {"params": backbone, "lr": self._config.optimizer_lr_backbone}]

    @property
    def has_latent(self) -> bool:
        """Whether training draws a latent, which predictions set to zero."""
        return self._config.use_vae


def _distance(actions: Tensor, batch: Batch) -> Tensor:
    is_pad, target = batch["action_is_pad"], batch["action"]
    error = torch.abs(actions.to(target.dtype) - target)
    return error.masked_fill(is_pad[..., None], 0).sum()
