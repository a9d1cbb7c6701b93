"""The fields of all policies: those of LeRobot's `config.json`, in its names and order."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Self

from manyhands.config.policies.features import FeatureType, LanguageConfig, PolicyFeature
from manyhands.config.schema.rules import at_least
from manyhands.config.sections.optim import OptimizerConfig, SchedulerConfig

DEFAULT_BACKBONE_WEIGHTS = "ResNet18_Weights.IMAGENET1K_V1"
BACKBONES = ("resnet18", "resnet34", "resnet50", "resnet101", "resnet152")
UNSTORED = "unstored"
"""Marks, in a field's metadata, what concerns the start of a run only: no file holds it."""
OURS = "ours"
"""Marks what LeRobot does not know: the config of a run holds it, LeRobot's files must not."""
NOT_LEROBOTS = (UNSTORED, OURS)


@dataclass(frozen=True, kw_only=True)
class PolicyConfig(ABC):
    """Base config of a policy; `--policy.type` selects the concrete class."""

    type: ClassVar[str]
    title: ClassVar[str | None] = None  # Display name, if it differs from the type.
    needs_scene: ClassVar[bool] = False  # Whether LeRobot rejects the robot's state alone.
    prediction_fields: ClassVar[tuple[str, ...]] = ("use_amp",)
    """Fields that predictions depend on and weights do not: `manyhands eval` can change them."""
    adapter_targets: ClassVar[str | None] = None
    """Regular expression of the modules that --peft adapts by default, matched on full names."""

    n_obs_steps: int = 1
    """Observations per sample, the current one included."""
    input_features: dict[str, PolicyFeature] = field(default_factory=dict)
    """Input features; empty: every observation of the dataset."""
    output_features: dict[str, PolicyFeature] = field(default_factory=dict)
    """Output features; set from the dataset's actions."""
    device: str | None = None
    """Device: cpu, cuda or cuda:N; null: cuda if available."""
    use_amp: bool = False
    """Train in bf16 mixed precision unless another precision is set; evaluate in it."""
    use_peft: bool = False
    """Whether --policy.path has adapters to train further; --peft creates new ones."""
    push_to_hub: bool = False
    """Upload the policy to --policy.repo_id when training has finished."""
    repo_id: str | None = None
    """Name on the Hub for --policy.push_to_hub, YOUR_NAME/POLICY_NAME."""
    private: bool | None = None
    """Create the Hub repository as private; null: the account's default."""
    tags: list[str] | None = None
    """Additional tags of the model card."""
    license: str | None = None
    """License of the model card, by its Hub identifier, such as apache-2.0."""
    pretrained_path: Path | None = None
    """Folder or Hub name of pretrained weights; set by --policy.path."""
    pretrained_revision: str | None = None
    """Revision of those weights on the Hub."""

    @property
    def trains_in_bf16(self) -> bool:
        """Whether the policy trains as well in bf16 mixed precision, then its default on GPUs."""
        return False

    @property
    def language(self) -> LanguageConfig | None:
        """The tokenizer config; None for a policy that does not read tasks."""
        return None

    def without_downloads(self) -> Self:
        """The same policy with all weights in its folder, so that nothing is downloaded."""
        return self

    def reads(self, feature: PolicyFeature) -> bool:
        """Whether the policy reads an observation by default."""
        return True

    def is_optional_input(self, name: str) -> bool:
        """Whether an input may be missing."""
        return False

    @property
    def recorded_features(self) -> dict[str, PolicyFeature]:
        """Inputs that datasets contain; the policy synthesizes all others."""
        return self.input_features

    @property
    def takes_any_image_size(self) -> bool:
        """Whether weights trained at one image size work with another."""
        return False

    @property
    def takes_any_vector_size(self) -> bool:
        """Whether weights trained at one size of states and actions work with another."""
        return False

    @property
    def observation_offsets(self) -> list[int] | None:
        """Frame offsets of observations; None is the current frame, without a time axis."""
        return None

    @property
    @abstractmethod
    def action_offsets(self) -> list[int]:
        """Frame offsets of the actions in a sample."""

    @property
    def num_executed_actions(self) -> int:
        """Actions of a predicted chunk to execute before the next prediction."""
        return len(self.action_offsets)

    @property
    def num_dropped_frames(self) -> int:
        """Frames at the end of every episode at which no sample starts."""
        return 0

    @abstractmethod
    def optimizer_preset(self) -> OptimizerConfig:
        """The default optimizer of this policy."""

    def scheduler_preset(self) -> SchedulerConfig | None:
        """The default schedule of this policy; None is constant."""
        return None

    def faults(self) -> list[str]:
        """Return every invalid value."""
        return []

    def feature_faults(self) -> list[str]:
        """Return every invalid feature of a dataset."""
        action = self.output_features.get("action")
        shapes = {name: self.input_features[name].shape for name in visual_features(self)}
        faults = []
        if action is None or action.type is not FeatureType.ACTION or len(action.shape) != 1:
            faults.append(
                "the policy needs the feature action, a vector of type ACTION; "
                f"--policy.output_features has {', '.join(self.output_features) or 'nothing'}"
            )
        for name, shape in shapes.items():
            if len(shape) != 3 or shape[0] != 3:
                faults.append(f"{name} must have shape (3, height, width), not {shape}")
        return faults


@dataclass(frozen=True, kw_only=True)
class BackbonePolicyConfig(PolicyConfig):
    """A policy whose image encoders may start from pretrained weights."""

    needs_scene: ClassVar[bool] = True

    backbone_weights: Path | None = field(default=None, metadata={UNSTORED: True})
    """File with pretrained weights of the image encoder (.safetensors, .pth) to use offline."""

    @property
    def trains_in_bf16(self) -> bool:
        """True: these policies train as well in bf16."""
        return True

    def without_downloads(self) -> Self:
        """The same policy without sources of pretrained image encoders."""
        sources = {"backbone_weights", "pretrained_backbone_weights"}
        own: dict[str, Any] = dict.fromkeys(sources & {item.name for item in fields(self)})
        return replace(self, **own)


@dataclass(frozen=True, kw_only=True)
class ChunkPolicyConfig(PolicyConfig):
    """A policy that predicts a chunk of actions from the current observation."""

    prediction_fields: ClassVar[tuple[str, ...]] = ("use_amp", "n_action_steps")

    chunk_size: int = 100
    """Actions predicted per chunk."""
    n_action_steps: int = 100
    """Actions executed before the next prediction."""

    @property
    def takes_any_image_size(self) -> bool:
        """True: neither tokens nor resized images depend on it."""
        return True

    @property
    def action_offsets(self) -> list[int]:
        """One action per future step of the chunk."""
        return list(range(self.chunk_size))

    @property
    def num_executed_actions(self) -> int:
        """The value of `n_action_steps`."""
        return self.n_action_steps

    def chunk_faults(self) -> Iterator[str]:
        """Yield sizes of the observation and of the chunk that cannot be."""
        yield from at_least(self, "policy.", 1, "chunk_size")
        if self.n_obs_steps != 1:
            yield (
                f"--policy.n_obs_steps={self.n_obs_steps}: {self.title} reads one observation. "
                "Set it to 1"
            )
        if not 1 <= self.n_action_steps <= max(1, self.chunk_size):
            yield (
                f"--policy.n_action_steps={self.n_action_steps} must be between 1 and "
                f"--policy.chunk_size={self.chunk_size}"
            )


def visual_features(config: PolicyConfig) -> list[str]:
    """Names of the cameras, in order."""
    return [
        name
        for name, feature in config.input_features.items()
        if feature.type is FeatureType.VISUAL
    ]


def observation_faults(config: PolicyConfig) -> Iterator[str]:
    """Yield a fault if the robot's state is missing, or the environment's has another name."""
    inputs = config.input_features
    state = inputs.get("observation.state")
    environment = [name for name, item in inputs.items() if item.type is FeatureType.ENV]
    seen = f"--policy.input_features has {', '.join(inputs) or 'nothing'}"
    if state is None or state.type is not FeatureType.STATE:
        yield f"the policy needs the feature observation.state of type STATE; {seen}"
    if environment not in ([], ["observation.environment_state"]):
        yield f"features of type ENV must be observation.environment_state alone, not {environment}"
