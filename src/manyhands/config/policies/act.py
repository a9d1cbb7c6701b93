"""Action Chunking with Transformers: every field of its `config.json`."""

from dataclasses import dataclass, field
from typing import ClassVar

from manyhands.config.policies.base import (
    BACKBONES,
    DEFAULT_BACKBONE_WEIGHTS,
    BackbonePolicyConfig,
    observation_faults,
)
from manyhands.config.policies.features import NormalizationMode
from manyhands.config.sections.optim import AdamWConfig, OptimizerConfig


def _mean_std_everywhere() -> dict[str, NormalizationMode]:
    return dict.fromkeys(("VISUAL", "STATE", "ACTION"), NormalizationMode.MEAN_STD)


@dataclass(frozen=True, kw_only=True)
class ActConfig(BackbonePolicyConfig):
    """Action Chunking with Transformers."""

    type: ClassVar[str] = "act"
    title: ClassVar[str | None] = "ACT"

    chunk_size: int = 100
    """Actions predicted per chunk."""
    n_action_steps: int = 100
    """Actions executed before the next prediction."""
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

    @property
    def takes_any_image_size(self) -> bool:
        """The transformer accepts feature maps of any size."""
        return True

    @property
    def action_offsets(self) -> list[int]:
        """One action per future step of the chunk."""
        return list(range(self.chunk_size))

    @property
    def num_executed_actions(self) -> int:
        """The value of `n_action_steps`."""
        return self.n_action_steps

    def optimizer_preset(self) -> OptimizerConfig:
        """AdamW with the policy's own learning rate and decay."""
        return AdamWConfig(lr=self.optimizer_lr, weight_decay=self.optimizer_weight_decay)

    def faults(self) -> list[str]:
        """Return every size and choice that ACT does not support."""
        rules = self._chunk_rules() + self._network_rules()
        return [sentence for is_wrong, sentence in rules if is_wrong]

    def feature_faults(self) -> list[str]:
        """ACT needs the robot's state, and a camera or the environment's state."""
        return super().feature_faults() + observation_faults(self)

    def _chunk_rules(self) -> list[tuple[bool, str]]:
        coefficient, executed = self.temporal_ensemble_coeff, self.n_action_steps
        return [
            (
                self.n_obs_steps != 1,
                f"--policy.n_obs_steps={self.n_obs_steps}: ACT reads one observation. Set it to 1",
            ),
            (self.chunk_size < 1, f"--policy.chunk_size={self.chunk_size} must be at least 1"),
            (
                not 1 <= executed <= max(1, self.chunk_size),
                f"--policy.n_action_steps={executed} must be between 1 and "
                f"--policy.chunk_size={self.chunk_size}",
            ),
            (
                coefficient is not None and executed != 1,
                f"--policy.temporal_ensemble_coeff needs --policy.n_action_steps=1, not {executed}",
            ),
        ]

    def _network_rules(self) -> list[tuple[bool, str]]:
        backbone, width = self.vision_backbone, self.dim_model
        sizes = ("dim_model", "n_heads", "dim_feedforward", "latent_dim")
        depths = ("n_encoder_layers", "n_decoder_layers", "n_vae_encoder_layers")
        small = [
            (getattr(self, name) < 1, f"--policy.{name}={getattr(self, name)} must be at least 1")
            for name in (*sizes, *depths)
        ]
        return [
            *small,
            (
                backbone not in BACKBONES,
                f"--policy.vision_backbone={backbone} is not one of {', '.join(BACKBONES)}",
            ),
            (
                bool(self.replace_final_stride_with_dilation) and backbone in BACKBONES[:2],
                "--policy.replace_final_stride_with_dilation needs resnet50 or larger, not "
                f"{backbone}",
            ),
            (
                self.feedforward_activation not in ("relu", "gelu"),
                f"--policy.feedforward_activation={self.feedforward_activation} is not one of "
                "relu, gelu",
            ),
            (
                width > 0 and (width % 4 != 0 or width % max(1, self.n_heads) != 0),
                f"--policy.dim_model={width} must be divisible by 4 and by --policy.n_heads="
                f"{self.n_heads}",
            ),
            (
                not 0 <= self.dropout < 1,
                f"--policy.dropout={self.dropout} must be at least 0 and below 1",
            ),
        ]
