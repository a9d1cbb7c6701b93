"""Action Chunking with Transformers: every field of its `config.json`."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from manyhands.config.policies.base import (
    BACKBONES,
    DEFAULT_BACKBONE_WEIGHTS,
    BackbonePolicyConfig,
    ChunkPolicyConfig,
    observation_faults,
)
from manyhands.config.policies.features import NormalizationMode
from manyhands.config.schema.rules import at_least, one_of
from manyhands.config.sections.optim import AdamWConfig, OptimizerConfig


def _mean_std_everywhere() -> dict[str, NormalizationMode]:
    return dict.fromkeys(("VISUAL", "STATE", "ACTION"), NormalizationMode.MEAN_STD)


@dataclass(frozen=True, kw_only=True)
class ActConfig(ChunkPolicyConfig, BackbonePolicyConfig):
    """Action Chunking with Transformers."""

    type: ClassVar[str] = "act"
    title: ClassVar[str | None] = "ACT"
    prediction_fields: ClassVar[tuple[str, ...]] = (
        *ChunkPolicyConfig.prediction_fields,
        "temporal_ensemble_coeff",
    )

    normalization_mapping: dict[str, NormalizationMode] = field(
        default_factory=_mean_std_everywhere
    )
    """How each kind of feature is normalized."""
    vision_backbone: str = "resnet18"
    """Image encoder: resnet18, resnet34, resnet50, resnet101 or resnet152."""
    pretrained_backbone_weights: str | None = DEFAULT_BACKBONE_WEIGHTS
    """Pretrained weights of the image encoder; null: random weights."""
    replace_final_stride_with_dilation: int = 0
    """Dilate instead of striding in the last stage (1), for resnet50 and larger."""
    pre_norm: bool = False
    """Layer norm before each transformer sublayer (pre-norm) instead of after."""
    dim_model: int = 512
    """Hidden size of the transformer."""
    n_heads: int = 8
    """Attention heads."""
    dim_feedforward: int = 3200
    """Hidden size of the feed-forward sublayers."""
    feedforward_activation: str = "relu"
    """Activation of the feed-forward sublayers: relu or gelu."""
    n_encoder_layers: int = 4
    """Encoder layers."""
    n_decoder_layers: int = 1
    """Decoder layers."""
    use_vae: bool = True
    """Train with a variational encoder (VAE) of the action chunk."""
    latent_dim: int = 32
    """Size of the VAE latent."""
    n_vae_encoder_layers: int = 4
    """Layers of the VAE encoder."""
    temporal_ensemble_coeff: float | None = None
    """Temporal ensembling of chunks, weights exp(-coeff * age); needs n_action_steps=1."""
    dropout: float = 0.1
    """Dropout in the transformer."""
    kl_weight: float = 10.0
    """Weight of the KL loss."""
    optimizer_lr: float = 1e-5
    """Learning rate of the policy's preset."""
    optimizer_weight_decay: float = 1e-4
    """Weight decay of the policy's preset."""
    optimizer_lr_backbone: float = 1e-5
    """Learning rate of the image encoder."""

    def optimizer_preset(self) -> OptimizerConfig:
        """AdamW with the policy's own learning rate and decay."""
        return AdamWConfig(lr=self.optimizer_lr, weight_decay=self.optimizer_weight_decay)

    def faults(self) -> list[str]:
        """Return every size and choice that ACT does not support."""
        return [*self.chunk_faults(), *self._network_faults()]

    def feature_faults(self) -> list[str]:
        """ACT needs the robot's state, and a camera or the environment's state."""
        return [*super().feature_faults(), *observation_faults(self)]

    def _network_faults(self) -> Iterator[str]:
        backbone, width = self.vision_backbone, self.dim_model
        sizes = ("dim_model", "n_heads", "dim_feedforward", "latent_dim")
        depths = ("n_encoder_layers", "n_decoder_layers", "n_vae_encoder_layers")
        if self.temporal_ensemble_coeff is not None and self.n_action_steps != 1:
            yield (
                "--policy.temporal_ensemble_coeff needs --policy.n_action_steps=1, not "
                f"{self.n_action_steps}"
            )
        yield from at_least(self, "policy.", 1, *sizes, *depths)
        yield from one_of(
            self, "policy.", vision_backbone=BACKBONES, feedforward_activation=("relu", "gelu")
        )
        if self.replace_final_stride_with_dilation and backbone in BACKBONES[:2]:
            yield (
                "--policy.replace_final_stride_with_dilation needs resnet50 or larger, not "
                f"{backbone}"
            )
        if width > 0 and (width % 4 != 0 or width % max(1, self.n_heads) != 0):
            yield (
                f"--policy.dim_model={width} must be divisible by 4 and by --policy.n_heads="
                f"{self.n_heads}"
            )
        if not 0 <= self.dropout < 1:
            yield f"--policy.dropout={self.dropout} must be at least 0 and below 1"
