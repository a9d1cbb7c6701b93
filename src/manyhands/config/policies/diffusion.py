"""Diffusion Policy: every field of its `config.json`."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from manyhands.config.policies.base import (
    BACKBONES,
    DEFAULT_BACKBONE_WEIGHTS,
    OURS,
    BackbonePolicyConfig,
    observation_faults,
    visual_features,
)
from manyhands.config.policies.features import NormalizationMode
from manyhands.config.schema.rules import at_least, one_of
from manyhands.config.sections.optim import (
    AdamConfig,
    DiffuserSchedulerConfig,
    OptimizerConfig,
    SchedulerConfig,
)

PREDICTION_TYPES = ("epsilon", "sample")
BETA_SCHEDULES = {
    "DDPM": ("squaredcos_cap_v2", "linear", "scaled_linear", "sigmoid", "laplace"),
    "DDIM": ("squaredcos_cap_v2", "linear", "scaled_linear"),
}
"""How noise may grow, by the way actions are denoised."""
BETWEEN_BETAS = ("linear", "scaled_linear", "sigmoid")
"""Schedules that go from beta_start to beta_end; the others have their own curve."""
FINAL_GROUPS = 8  # Groups of the U-Net's last norm, whatever n_groups is.


def _cameras_by_mean_others_by_range() -> dict[str, NormalizationMode]:
    return {
        "VISUAL": NormalizationMode.MEAN_STD,
        "STATE": NormalizationMode.MIN_MAX,
        "ACTION": NormalizationMode.MIN_MAX,
    }


@dataclass(frozen=True, kw_only=True)
class DiffusionConfig(BackbonePolicyConfig):
    """Diffusion Policy with a convolutional U-Net."""

    type: ClassVar[str] = "diffusion"
    title: ClassVar[str | None] = "Diffusion Policy"
    prediction_fields: ClassVar[tuple[str, ...]] = (
        "use_amp",
        "n_action_steps",
        "num_inference_steps",
        "noise_scheduler_type",
        "clip_sample",
        "clip_sample_range",
    )

    n_obs_steps: int = 2
    """Observations per sample, the current one included."""
    horizon: int = 64
    """Length of the denoised action sequence, past actions included."""
    n_action_steps: int = 32
    """Actions executed before the next prediction."""
    normalization_mapping: dict[str, NormalizationMode] = field(
        default_factory=_cameras_by_mean_others_by_range
    )
    """How each kind of feature is normalized."""
    drop_n_last_frames: int = 7
    """Frames at the end of every episode that start no sample."""
    vision_backbone: str = "resnet18"
    """Image encoder: resnet18, resnet34, resnet50, resnet101 or resnet152."""
    resize_shape: tuple[int, int] | None = None
    """Resize images to this height and width; null: no resizing."""
    crop_ratio: float = 1.0
    """Cropped fraction of the resized height and width; needs resize_shape."""
    crop_shape: tuple[int, int] | None = None
    """Height and width of the crop; with resize_shape it follows from crop_ratio."""
    crop_is_random: bool = True
    """Random crops in training; center crops otherwise."""
    crop_per_sample: bool = field(default=False, metadata={OURS: True})
    """Crop every sample at a place of its own; false: one place per batch, as in LeRobot."""
    pretrained_backbone_weights: str | None = DEFAULT_BACKBONE_WEIGHTS
    """Pretrained weights of the image encoder; null: random weights."""
    use_group_norm: bool = False
    """Replace the image encoder's batch norms by group norms."""
    spatial_softmax_num_keypoints: int = 32
    """Keypoints per image (spatial softmax)."""
    use_separate_rgb_encoder_per_camera: bool = True
    """One image encoder per camera."""
    down_dims: tuple[int, ...] = (512, 1024, 2048)
    """Channels of the U-Net's levels."""
    kernel_size: int = 5
    """Kernel size of the U-Net's convolutions."""
    n_groups: int = 8
    """Groups of the U-Net's norms."""
    diffusion_step_embed_dim: int = 128
    """Size of the timestep embedding."""
    use_film_scale_modulation: bool = True
    """FiLM scales activations too, instead of only shifting them."""
    gradient_checkpointing: bool = False
    """Recompute activations in the backward pass to save memory."""
    noise_scheduler_type: str = "DDPM"
    """Noise scheduler: DDPM or DDIM."""
    num_train_timesteps: int = 100
    """Diffusion timesteps in training."""
    beta_schedule: str = "squaredcos_cap_v2"
    """Noise schedule: squaredcos_cap_v2, linear, scaled_linear; for DDPM also sigmoid, laplace."""
    beta_start: float = 1e-4
    """First beta of a linear, scaled_linear or sigmoid schedule."""
    beta_end: float = 0.02
    """Last beta of a linear, scaled_linear or sigmoid schedule."""
    prediction_type: str = "epsilon"
    """Prediction target: epsilon (the noise) or sample (the actions)."""
    clip_sample: bool = True
    """Clip denoised actions to clip_sample_range."""
    clip_sample_range: float = 1.0
    """Largest absolute value of a denoised action."""
    num_inference_steps: int | None = None
    """Denoising steps at inference; null: num_train_timesteps."""
    compile_model: bool = False
    """Stored for LeRobot; only false is supported."""
    compile_mode: str = "reduce-overhead"
    """Stored for LeRobot; no effect here."""
    noise_draws_per_sample: int = field(default=1, metadata={OURS: True})
    """Noises and timesteps that each sample is trained on in a step; images are encoded once."""
    do_mask_loss_for_padding: bool = False
    """Mask actions beyond the episode's end in the loss."""
    optimizer_lr: float = 1e-4
    """Learning rate of the policy's preset."""
    optimizer_betas: tuple[float, float] = (0.95, 0.999)
    """Adam betas of the policy's preset."""
    optimizer_eps: float = 1e-8
    """Adam epsilon of the policy's preset."""
    optimizer_weight_decay: float = 1e-6
    """Weight decay of the policy's preset."""
    scheduler_name: str = "cosine"
    """Learning-rate schedule of the policy's preset."""
    scheduler_warmup_steps: int = 500
    """Warm-up steps of the policy's preset."""

    def __post_init__(self) -> None:
        if self.resize_shape is not None:
            height, width = (int(size * self.crop_ratio) for size in self.resize_shape)
            crop = (height, width) if 0 < self.crop_ratio < 1 else None
            object.__setattr__(self, "crop_shape", crop)

    @property
    def takes_any_image_size(self) -> bool:
        """Keypoints depend on the image size; resizing or cropping makes it constant."""
        return self.resize_shape is not None or self.crop_shape is not None

    @property
    def observation_offsets(self) -> list[int] | None:
        """The latest observations, the current one last."""
        return list(range(1 - self.n_obs_steps, 1))

    @property
    def action_offsets(self) -> list[int]:
        """The horizon, which begins with the first observation."""
        return list(range(1 - self.n_obs_steps, 1 - self.n_obs_steps + self.horizon))

    @property
    def num_executed_actions(self) -> int:
        """The value of `n_action_steps`."""
        return self.n_action_steps

    @property
    def num_denoising_steps(self) -> int:
        """Denoising steps at inference."""
        steps = self.num_inference_steps
        return self.num_train_timesteps if steps is None else steps

    @property
    def num_dropped_frames(self) -> int:
        """The value of `drop_n_last_frames`, independent of the horizon."""
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
        """A warm-up and the configured curve."""
        return DiffuserSchedulerConfig(
            name=self.scheduler_name, num_warmup_steps=self.scheduler_warmup_steps
        )

    def faults(self) -> list[str]:
        """Return every size and choice that Diffusion Policy does not support."""
        sections = (self._count_faults(), self._image_faults(), self._network_faults())
        return [fault for section in sections for fault in section]

    def feature_faults(self) -> list[str]:
        """Require the robot's state, a camera or environment state, and cameras of one size."""
        return [*super().feature_faults(), *observation_faults(self), *self._camera_faults()]

    def _camera_faults(self) -> Iterator[str]:
        shapes = {name: self.input_features[name].shape for name in visual_features(self)}
        crop = self.crop_shape if self.resize_shape is None else None
        if len(set(shapes.values())) > 1:
            listed = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
            height, width = min(shape[1:] for shape in shapes.values())
            flag = f"--dataset.image_size='[{height},{width}]'"
            yield (
                f"all cameras must have the same shape, not {listed}. Select cameras with "
                f"--policy.input_features, or resize them: {flag}"
            )
        for name, shape in shapes.items():
            if crop is not None and any(map(int.__gt__, crop, shape[1:])):
                yield f"--policy.crop_shape={crop} does not fit into {name} of shape {shape}"

    def _count_faults(self) -> Iterator[str]:
        steps = ("n_obs_steps", "horizon", "n_action_steps", "num_train_timesteps")
        sizes = ("spatial_softmax_num_keypoints", "n_groups", "noise_draws_per_sample")
        yield from at_least(self, "policy.", 1, *steps, *sizes)
        yield from at_least(self, "policy.", 0, "drop_n_last_frames")
        executed, most = self.n_action_steps, self.horizon - self.n_obs_steps + 1
        if executed > most:
            yield (
                f"--policy.n_action_steps={executed} must be at most horizon - n_obs_steps + 1 = "
                f"{most}"
            )
        denoising = self.num_inference_steps
        if denoising is not None and not 1 <= denoising <= self.num_train_timesteps:
            yield (
                f"--policy.num_inference_steps={denoising} must be between 1 and "
                f"--policy.num_train_timesteps={self.num_train_timesteps}"
            )
        yield from one_of(
            self,
            "policy.",
            vision_backbone=BACKBONES,
            noise_scheduler_type=BETA_SCHEDULES,
            prediction_type=PREDICTION_TYPES,
            beta_schedule=BETA_SCHEDULES.get(self.noise_scheduler_type, BETA_SCHEDULES["DDPM"]),
        )

    def _image_faults(self) -> Iterator[str]:
        sizes = {"resize_shape": self.resize_shape, "crop_shape": self.crop_shape}
        for name, shape in sizes.items():
            if shape is not None and min(shape) < 1:
                yield f"--policy.{name}={shape} must be positive sizes"
        if not 0 < self.crop_ratio <= 1:
            yield f"--policy.crop_ratio={self.crop_ratio} must be above 0 and at most 1"
        if self.crop_per_sample and not (self.crop_shape and self.crop_is_random):
            yield (
                "--policy.crop_per_sample=true needs random crops. Set --policy.crop_shape=[84,84] "
                "or another size, and --policy.crop_is_random=true"
            )
        if self.use_group_norm and (self.pretrained_backbone_weights or self.backbone_weights):
            yield (
                "--policy.use_group_norm=true replaces the batch norms that pretrained weights "
                "need. Set --policy.pretrained_backbone_weights=null and remove "
                "--policy.backbone_weights"
            )

    def _network_faults(self) -> Iterator[str]:
        dims, code, kernel = self.down_dims, self.diffusion_step_embed_dim, self.kernel_size
        factor, groups = 2 ** len(dims), max(1, self.n_groups)
        is_uneven = not dims or any(size < 1 or size % groups for size in dims)
        if self.horizon % factor != 0:
            yield (
                f"--policy.horizon={self.horizon} must be divisible by {factor}: "
                f"--policy.down_dims={list(dims)} halves it at every level"
            )
        if is_uneven or dims[0] % FINAL_GROUPS > 0:
            yield (
                f"--policy.down_dims={list(dims)} must be divisible by --policy.n_groups="
                f"{self.n_groups}, and the first of them by {FINAL_GROUPS}"
            )
        if kernel < 1 or kernel % 2 == 0:
            yield f"--policy.kernel_size={kernel} must be odd, at least 1"
        if code < 4 or code % 2 > 0:
            yield f"--policy.diffusion_step_embed_dim={code} must be even, at least 4"
        if self.compile_model:
            yield "--policy.compile_model=true is not supported; use --step.mode=compile"
        first, last, limit = self.beta_start, self.beta_end, self.clip_sample_range
        if self.beta_schedule in BETWEEN_BETAS and not 0 < first <= last < 1:
            yield (
                f"--policy.beta_start={first} must be above 0 and at most --policy.beta_end={last},"
                " which must be below 1"
            )
        if self.clip_sample and not limit > 0:
            yield f"--policy.clip_sample_range={limit} must be above 0"
