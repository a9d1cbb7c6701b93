"""Diffusion Policy: every field of its `config.json`."""

from dataclasses import dataclass, field
from typing import ClassVar

from manyhands.config.features import NormalizationMode
from manyhands.config.optim import (
    AdamConfig,
    DiffuserSchedulerConfig,
    OptimizerConfig,
    SchedulerConfig,
)
from manyhands.config.policy import BACKBONES, DEFAULT_BACKBONE_WEIGHTS, PolicyConfig

NOISE_SCHEDULERS = ("DDPM", "DDIM")
PREDICTION_TYPES = ("epsilon", "sample")
BETA_SCHEDULES = ("squaredcos_cap_v2", "linear", "scaled_linear")


def _cameras_by_mean_others_by_range() -> dict[str, NormalizationMode]:
    return {
        "VISUAL": NormalizationMode.MEAN_STD,
        "STATE": NormalizationMode.MIN_MAX,
        "ACTION": NormalizationMode.MIN_MAX,
    }


@dataclass(frozen=True, kw_only=True)
class DiffusionConfig(PolicyConfig):
    """Diffusion Policy with a convolutional U-Net."""

    type: ClassVar[str] = "diffusion"

    n_obs_steps: int = 2
    """Observations the policy looks at, the current one included."""
    horizon: int = 64
    """Actions denoised at once, the first ones in the past."""
    n_action_steps: int = 32
    """Actions executed before the next prediction."""
    normalization_mapping: dict[str, NormalizationMode] = field(
        default_factory=_cameras_by_mean_others_by_range
    )
    """How each kind of feature is normalized."""
    drop_n_last_frames: int = 7
    """Frames at the end of every episode that no sample begins at."""
    vision_backbone: str = "resnet18"
    """Image encoder: resnet18, resnet34, resnet50, resnet101 or resnet152."""
    resize_shape: tuple[int, int] | None = None
    """Height and width that images are resized to; null leaves them as they are."""
    crop_ratio: float = 1.0
    """Share of the resized image's sides that is cropped; needs resize_shape."""
    crop_shape: tuple[int, int] | None = None
    """Height and width of the crop; with resize_shape it follows from crop_ratio."""
    crop_is_random: bool = True
    """Crop at random in training; the center otherwise."""
    pretrained_backbone_weights: str | None = DEFAULT_BACKBONE_WEIGHTS
    """Weights the image encoder starts from; null for random ones."""
    use_group_norm: bool = False
    """Replace the image encoder's batch norms by group norms."""
    spatial_softmax_num_keypoints: int = 32
    """Points each image is reduced to."""
    use_separate_rgb_encoder_per_camera: bool = True
    """Give every camera an encoder of its own."""
    down_dims: tuple[int, ...] = (512, 1024, 2048)
    """Channels of the U-Net's levels."""
    kernel_size: int = 5
    """Width of the U-Net's convolutions."""
    n_groups: int = 8
    """Groups of the U-Net's norms."""
    diffusion_step_embed_dim: int = 128
    """Size of the embedded diffusion step."""
    use_film_scale_modulation: bool = True
    """Let the condition scale activations, not only shift them."""
    gradient_checkpointing: bool = False
    """Recompute activations in the backward pass to save memory."""
    noise_scheduler_type: str = "DDPM"
    """How actions are denoised: DDPM or DDIM."""
    num_train_timesteps: int = 100
    """Steps from data to noise."""
    beta_schedule: str = "squaredcos_cap_v2"
    """How noise grows with the step: squaredcos_cap_v2, linear or scaled_linear."""
    beta_start: float = 1e-4
    """First noise variance of a linear schedule."""
    beta_end: float = 0.02
    """Last noise variance of a linear schedule."""
    prediction_type: str = "epsilon"
    """What the network predicts: epsilon (the noise) or sample (the actions)."""
    clip_sample: bool = True
    """Keep denoised actions within clip_sample_range."""
    clip_sample_range: float = 1.0
    """Largest absolute value of a denoised action."""
    num_inference_steps: int | None = None
    """Denoising steps when acting; null takes num_train_timesteps."""
    compile_model: bool = False
    """Kept for LeRobot's files; only false."""
    compile_mode: str = "reduce-overhead"
    """Kept for LeRobot's files."""
    do_mask_loss_for_padding: bool = False
    """Leave actions beyond the episode's end out of the loss."""
    optimizer_lr: float = 1e-4
    """Learning rate of the preset."""
    optimizer_betas: tuple[float, float] = (0.95, 0.999)
    """Decay rates of the preset's moments."""
    optimizer_eps: float = 1e-8
    """Added to the preset's denominator."""
    optimizer_weight_decay: float = 1e-6
    """Weight decay of the preset."""
    scheduler_name: str = "cosine"
    """Learning-rate curve of the preset."""
    scheduler_warmup_steps: int = 500
    """Updates until the preset's full learning rate."""

    @property
    def observation_offsets(self) -> list[int] | None:
        """The latest observations, the current one last."""
        return list(range(1 - self.n_obs_steps, 1))

    @property
    def action_offsets(self) -> list[int]:
        """The horizon, which begins with the first observation."""
        return list(range(1 - self.n_obs_steps, 1 - self.n_obs_steps + self.horizon))

    @property
    def num_dropped_frames(self) -> int:
        """As many as the field says, whatever the horizon is."""
        return self.drop_n_last_frames

    def optimizer_preset(self) -> OptimizerConfig:
        """Adam with the policy's own values."""
        return AdamConfig(
            lr=self.optimizer_lr,
            betas=self.optimizer_betas,
            eps=self.optimizer_eps,
            weight_decay=self.optimizer_weight_decay,
        )

    def scheduler_preset(self) -> SchedulerConfig | None:
        """A warm-up and the curve that is named."""
        return DiffuserSchedulerConfig(
            name=self.scheduler_name, num_warmup_steps=self.scheduler_warmup_steps
        )

    def faults(self) -> list[str]:
        """Sizes and choices that no Diffusion Policy can have."""
        rules = self._count_rules() + self._choice_rules() + self._shape_rules()
        return [f"--policy.{sentence}" for is_wrong, sentence in rules if is_wrong]

    def _count_rules(self) -> list[tuple[bool, str]]:
        counts = {
            name: getattr(self, name)
            for name in (
                "n_obs_steps",
                "horizon",
                "n_action_steps",
                "spatial_softmax_num_keypoints",
                "n_groups",
                "num_train_timesteps",
            )
        }
        executed, most = self.n_action_steps, self.horizon - self.n_obs_steps + 1
        denoising = self.num_inference_steps
        return [
            *((count < 1, f"{name}={count} must be at least 1") for name, count in counts.items()),
            (
                self.drop_n_last_frames < 0,
                f"drop_n_last_frames={self.drop_n_last_frames} must be at least 0",
            ),
            (
                executed > most,
                f"n_action_steps={executed} must be at most horizon - n_obs_steps + 1 = {most}",
            ),
            (
                denoising is not None and not 1 <= denoising <= self.num_train_timesteps,
                f"num_inference_steps={denoising} must lie between 1 and --policy."
                f"num_train_timesteps={self.num_train_timesteps}",
            ),
        ]

    def _choice_rules(self) -> list[tuple[bool, str]]:
        choices = {
            "vision_backbone": BACKBONES,
            "noise_scheduler_type": NOISE_SCHEDULERS,
            "prediction_type": PREDICTION_TYPES,
            "beta_schedule": BETA_SCHEDULES,
        }
        return [
            (
                getattr(self, name) not in known,
                f"{name}={getattr(self, name)} is not one of {', '.join(known)}",
            )
            for name, known in choices.items()
        ]

    def _shape_rules(self) -> list[tuple[bool, str]]:
        factor = 2 ** len(self.down_dims)
        dims = self.down_dims
        return [
            *(
                (sizes is not None and min(sizes) < 1, f"{name}={sizes} must be two positive sizes")
                for name, sizes in (
                    ("resize_shape", self.resize_shape),
                    ("crop_shape", self.crop_shape),
                )
            ),
            (
                not 0 < self.crop_ratio <= 1,
                f"crop_ratio={self.crop_ratio} must be above 0 and at most 1",
            ),
            (
                self.horizon % factor != 0,
                f"horizon={self.horizon} must be divisible by {factor}, which halves it once for "
                f"each of --policy.down_dims={list(dims)}",
            ),
            (
                not dims or any(size < 1 or size % max(1, self.n_groups) for size in dims),
                f"down_dims={list(dims)} must be divisible by --policy.n_groups={self.n_groups}",
            ),
            (self.kernel_size % 2 == 0, f"kernel_size={self.kernel_size} must be odd"),
            (
                self.diffusion_step_embed_dim < 4 or self.diffusion_step_embed_dim % 2 == 1,
                f"diffusion_step_embed_dim={self.diffusion_step_embed_dim} must be even, from 4 on",
            ),
            (
                self.use_group_norm and self.pretrained_backbone_weights is not None,
                "use_group_norm=true replaces norms that pretrained weights rely on; set "
                "--policy.pretrained_backbone_weights=null",
            ),
            (
                self.compile_model,
                "compile_model=true is a LeRobot setting that does not exist here",
            ),
        ]
