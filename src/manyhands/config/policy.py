"""What all policies have: fields of LeRobot's `config.json`, under its names and in its order."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from manyhands.config.features import FeatureType, PolicyFeature
from manyhands.config.optim import OptimizerConfig, SchedulerConfig

DEFAULT_BACKBONE_WEIGHTS = "ResNet18_Weights.IMAGENET1K_V1"
BACKBONES = ("resnet18", "resnet34", "resnet50", "resnet101", "resnet152")


@dataclass(frozen=True, kw_only=True)
class PolicyConfig:
    """What every policy has; the concrete class is chosen by `--policy.type`."""

    type: ClassVar[str]

    n_obs_steps: int = 1
    """Observations the policy looks at, the current one included."""
    input_features: dict[str, PolicyFeature] = field(default_factory=dict)
    """Features the policy reads; empty takes every observation of the dataset."""
    output_features: dict[str, PolicyFeature] = field(default_factory=dict)
    """Features the policy predicts; filled from the dataset's actions."""
    device: str | None = None
    """Where to run: cpu, cuda, cuda:N; null takes a GPU where there is one."""
    use_amp: bool = False
    """Train in bf16 mixed precision where no other precision is chosen."""
    use_peft: bool = False
    """Kept for LeRobot's files; only false."""
    push_to_hub: bool = False
    """Kept for LeRobot's files; only false, runs stay local."""
    repo_id: str | None = None
    """Hub name recorded in the checkpoint."""
    private: bool | None = None
    """Hub visibility recorded in the checkpoint."""
    tags: list[str] | None = None
    """Hub tags recorded in the checkpoint."""
    license: str | None = None
    """License recorded in the checkpoint."""
    pretrained_path: Path | None = None
    """Folder or Hub name whose weights training starts from; set by --policy.path."""
    pretrained_revision: str | None = None
    """Hub revision of those weights."""

    @property
    def observation_offsets(self) -> list[int] | None:
        """Frame offsets of observations; None is the current frame, without a time axis."""
        raise NotImplementedError

    @property
    def action_offsets(self) -> list[int]:
        """Frame offsets of the actions in a sample."""
        raise NotImplementedError

    @property
    def num_dropped_frames(self) -> int:
        """Frames at the end of every episode that no sample begins at."""
        return 0

    def optimizer_preset(self) -> OptimizerConfig:
        """The optimizer this policy is trained with unless flags say otherwise."""
        raise NotImplementedError

    def scheduler_preset(self) -> SchedulerConfig | None:
        """The schedule this policy is trained with unless flags say otherwise."""
        raise NotImplementedError

    def faults(self) -> list[str]:
        """Everything about these values that cannot work."""
        raise NotImplementedError


def visual_features(config: PolicyConfig) -> list[str]:
    """Names of the cameras, in the order that numbers them."""
    return [
        name
        for name, feature in config.input_features.items()
        if feature.type is FeatureType.VISUAL
    ]
