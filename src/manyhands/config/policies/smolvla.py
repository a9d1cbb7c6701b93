"""SmolVLA, a vision-language-action policy: every field of its `config.json`."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

from manyhands.config.policies.base import OURS, UNSTORED, ChunkPolicyConfig, visual_features
from manyhands.config.policies.features import (
    FeatureType,
    LanguageConfig,
    NormalizationMode,
    PolicyFeature,
)
from manyhands.config.schema.rules import at_least, one_of
from manyhands.config.sections.optim import (
    AdamWConfig,
    CosineDecayWithWarmupConfig,
    OptimizerConfig,
    SchedulerConfig,
)

EMPTY_CAMERA = "observation.images.empty_camera_{}"
STATE = "observation.state"
ATTENTION_MODES = ("cross_attn", "self_attn")
PADDINGS = ("longest", "max_length")

_EMPTY_SHAPE = (3, 480, 640)
MAX_EMPTY_CAMERAS = 64


def _images_as_they_are() -> dict[str, NormalizationMode]:
    vectors = dict.fromkeys(("STATE", "ACTION"), NormalizationMode.MEAN_STD)
    return {"VISUAL": NormalizationMode.IDENTITY} | vectors


@dataclass(frozen=True, kw_only=True)
class RtcConfig:
    """Real-time chunking, by which LeRobot's rollouts blend consecutive chunks."""

    enabled: bool = True
    """Stored for LeRobot; no effect here."""
    prefix_attention_schedule: str = "LINEAR"
    """Stored for LeRobot; no effect here."""
    max_guidance_weight: float = 10.0
    """Stored for LeRobot; no effect here."""
    execution_horizon: int = 10
    """Stored for LeRobot; no effect here."""
    debug: bool = False
    """Stored for LeRobot; no effect here."""
    debug_maxlen: int = 100
    """Stored for LeRobot; no effect here."""
    # Releases up to 0.6.1 reject a file with this key; later ones have its default.
    mode: str = field(default="guided", metadata={UNSTORED: True})
    """Stored for LeRobot; only guided is supported."""


@dataclass(frozen=True, kw_only=True)
class SmolVLAConfig(ChunkPolicyConfig):
    """SmolVLA: a small vision-language model with an action expert beside it."""

    type: ClassVar[str] = "smolvla"
    title: ClassVar[str | None] = "SmolVLA"
    prediction_fields: ClassVar[tuple[str, ...]] = (
        *ChunkPolicyConfig.prediction_fields,
        "num_steps",
    )
    adapter_targets: ClassVar[str | None] = (
        r"model\.(vlm_with_expert\.lm_expert\..*\.[qv]_proj|state_proj|action_in_proj"
        r"|action_out_proj|action_time_mlp_in|action_time_mlp_out)"
    )

    chunk_size: int = 50
    n_action_steps: int = 50
    normalization_mapping: dict[str, NormalizationMode] = field(default_factory=_images_as_they_are)
    """How each kind of feature is normalized."""
    max_state_dim: int = 32
    """States are zero-padded to this size."""
    max_action_dim: int = 32
    """Actions are zero-padded to this size."""
    resize_imgs_with_padding: tuple[int, int] = (512, 512)
    """Resize images to this width and height (both alike), with black padding."""
    empty_cameras: int = 0
    """Empty cameras to add to those of the dataset."""
    adapt_to_pi_aloha: bool = False
    """Convert ALOHA joints and grippers to the convention of the pi models."""
    use_delta_joint_actions_aloha: bool = False
    """Stored for LeRobot; only false is supported."""
    tokenizer_max_length: int = 48
    """Maximum number of tokens of a task."""
    num_steps: int = 10
    """Flow-matching steps from noise to actions at inference."""
    use_cache: bool = True
    """Stored for LeRobot; only true is supported: the prefix is computed once per chunk."""
    freeze_vision_encoder: bool = True
    """Freeze the image encoder."""
    train_expert_only: bool = True
    """Freeze the vision-language model."""
    train_state_proj: bool = True
    """Train the state projection."""
    optimizer_lr: float = 1e-4
    """Learning rate of the policy's preset."""
    optimizer_betas: tuple[float, float] = (0.9, 0.95)
    """Adam betas of the policy's preset."""
    optimizer_eps: float = 1e-8
    """Adam epsilon of the policy's preset."""
    optimizer_weight_decay: float = 1e-10
    """Weight decay of the policy's preset."""
    optimizer_grad_clip_norm: float = 10.0
    """Maximum gradient norm of the policy's preset."""
    scheduler_warmup_steps: int = 1000
    """Warm-up steps of the policy's preset."""
    scheduler_decay_steps: int = 30_000
    """Step at which the policy's preset reaches its lowest learning rate."""
    scheduler_decay_lr: float = 2.5e-6
    """Lowest learning rate of the policy's preset."""
    vlm_model_name: str = "HuggingFaceTB/SmolVLM2-500M-Video-Instruct"
    """Vision-language model of the SmolVLM family: a folder or a name on the Hub."""
    load_vlm_weights: bool = False
    """Start from pretrained weights of the vision-language model."""
    add_image_special_tokens: bool = False
    """Add special tokens around each image."""
    attention_mode: str = "cross_attn"
    """Attention to the prefix: cross_attn (alternating with self-attention) or self_attn."""
    prefix_length: int = -1
    """Pad the prefix to this many tokens; -1: no padding."""
    pad_language_to: str = "longest"
    """Padding of texts: longest (of a batch) or max_length (--policy.tokenizer_max_length)."""
    num_expert_layers: int = -1
    """Layers of the action expert; -1: as many as the vision-language model."""
    num_vlm_layers: int = 16
    """Layers of the vision-language model to use; -1: all."""
    self_attn_every_n_layers: int = 2
    """With cross_attn, every Nth layer is self-attention; -1: none."""
    expert_width_multiplier: float = 0.75
    """Width of the action expert, relative to the vision-language model."""
    min_period: float = 4e-3
    """Shortest period of the timestep embedding."""
    max_period: float = 4.0
    """Longest period of the timestep embedding."""
    rtc_config: RtcConfig | None = None
    """Used by LeRobot's rollouts only."""
    compile_model: bool = False
    """Stored for LeRobot; only false is supported."""
    compile_mode: str = "max-autotune"
    """Stored for LeRobot; no effect here."""
    random_vlm: bool = field(default=False, metadata={UNSTORED: True})
    """Start from random weights of the vision-language model, even if it is frozen."""
    gradient_checkpointing: bool = field(default=False, metadata={OURS: True})
    """Recompute activations in the backward pass to save memory."""
    exact: bool = field(default=False, metadata={OURS: True})
    """Compute in LeRobot's operation order and dtypes (slower); false: equal up to rounding."""

    def __post_init__(self) -> None:
        # Without inputs the policy takes those of a dataset, which calls this again.
        if self.input_features:
            empty = PolicyFeature(FeatureType.VISUAL, _EMPTY_SHAPE)
            added = {name: self.input_features.get(name, empty) for name in self._empty_names()}
            object.__setattr__(self, "input_features", self.input_features | added)

    @property
    def trains_in_bf16(self) -> bool:
        """True, unless it computes exactly as LeRobot does by default."""
        return not self.exact

    @property
    def language(self) -> LanguageConfig:
        """The tokenizer of the vision-language model."""
        return LanguageConfig(self.vlm_model_name, self.tokenizer_max_length, self.pad_language_to)

    def without_downloads(self) -> Self:
        """Unchanged: the policy's weights include those of the vision-language model."""
        return replace(self, random_vlm=True)

    def reads(self, feature: PolicyFeature) -> bool:
        """True for states and cameras."""
        return feature.type in (FeatureType.STATE, FeatureType.VISUAL)

    def is_optional_input(self, name: str) -> bool:
        """Cameras may be missing, except one."""
        feature = self.input_features.get(name)
        return feature is not None and feature.type is FeatureType.VISUAL

    @property
    def recorded_features(self) -> dict[str, PolicyFeature]:
        """All inputs except empty cameras."""
        empty = self._empty_names()
        return {name: each for name, each in self.input_features.items() if name not in empty}

    @property
    def takes_any_vector_size(self) -> bool:
        """True: states and actions are padded to one size."""
        return True

    def optimizer_preset(self) -> OptimizerConfig:
        """AdamW with the policy's own values."""
        return AdamWConfig(
            lr=self.optimizer_lr,
            betas=self.optimizer_betas,
            eps=self.optimizer_eps,
            weight_decay=self.optimizer_weight_decay,
            grad_clip_norm=self.optimizer_grad_clip_norm,
        )

    def scheduler_preset(self) -> SchedulerConfig | None:
        """A warm-up, then a cosine down to the lowest learning rate."""
        return CosineDecayWithWarmupConfig(
            peak_lr=self.optimizer_lr,
            decay_lr=self.scheduler_decay_lr,
            num_warmup_steps=self.scheduler_warmup_steps,
            num_decay_steps=self.scheduler_decay_steps,
        )

    def faults(self) -> list[str]:
        """Return every size and choice that SmolVLA does not support."""
        return [*self.chunk_faults(), *self._own_faults()]

    def feature_faults(self) -> list[str]:
        """Require a state and actions that fit, and a camera."""
        return [*super().feature_faults(), *self._feature_faults()]

    def _feature_faults(self) -> Iterator[str]:
        state = self.input_features.get(STATE)
        seen = f"--policy.input_features has {', '.join(self.input_features) or 'nothing'}"
        if state is None or state.type is not FeatureType.STATE or len(state.shape) != 1:
            yield f"the policy needs the feature observation.state, a vector of type STATE; {seen}"
        if not set(visual_features(self)) & self.recorded_features.keys():
            yield f"the policy needs a camera; {seen}"
        sizes = {
            STATE: (state, "max_state_dim"),
            "action": (self.output_features.get("action"), "max_action_dim"),
        }
        for name, (feature, flag) in sizes.items():
            size = 0 if feature is None or len(feature.shape) != 1 else feature.shape[0]
            most = getattr(self, flag)
            if size > most:
                yield (
                    f"{name} has {size} values, more than --policy.{flag}={most}. Set "
                    f"--policy.{flag}={size} and train from scratch, or use fewer values"
                )

    def _empty_names(self) -> list[str]:
        numbers = range(min(self.empty_cameras, MAX_EMPTY_CAMERAS))
        return [EMPTY_CAMERA.format(number) for number in numbers]

    def _own_faults(self) -> Iterator[str]:
        counts = ("max_state_dim", "max_action_dim", "tokenizer_max_length", "num_steps")
        yield from at_least(self, "policy.", 1, *counts)
        yield from at_least(self, "policy.", 0, "empty_cameras")
        yield from one_of(self, "policy.", attention_mode=ATTENTION_MODES, pad_language_to=PADDINGS)
        if self.use_delta_joint_actions_aloha:
            yield (
                "--policy.use_delta_joint_actions_aloha=true is not supported, not by LeRobot "
                "either"
            )
        if self.rtc_config is not None and self.rtc_config.mode != "guided":
            yield "--policy.rtc_config.mode must be guided, the only mode that SmolVLA supports"
        if not self.use_cache:
            yield "--policy.use_cache=false is not supported by manyhands; use true"
        if self.compile_model:
            yield "--policy.compile_model=true is not supported; use --step.mode=compile"
        size, width = self.resize_imgs_with_padding, self.expert_width_multiplier
        if min(size) < 1 or size[0] != size[1]:
            yield (
                f"--policy.resize_imgs_with_padding={list(size)} must be an equal width and height"
            )
        if not width > 0:
            yield f"--policy.expert_width_multiplier={width} must be above 0"
        first, last = self.min_period, self.max_period
        if not 0 < first < last:
            yield (
                f"--policy.min_period={first} must be above 0 and below --policy.max_period={last}"
            )
