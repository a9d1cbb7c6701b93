"""Values of the policy: each is a flag `--policy.<name>` and a key of its `config.json`."""

from dataclasses import dataclass, field
from typing import ClassVar

from manyhands.config.policies.base import PolicyConfig
from manyhands.config.policies.features import FeatureType, NormalizationMode, PolicyFeature
from manyhands.config.sections.optim import AdamWConfig, OptimizerConfig

ALIKE = dict.fromkeys(("STATE", "ENV", "ACTION"), NormalizationMode.MEAN_STD)


@dataclass(frozen=True, kw_only=True)
class MlpConfig(PolicyConfig):
    """A multilayer perceptron from the current state to the next actions."""

    type: ClassVar[str] = "mlp"

    chunk_size: int = 8
    """Actions predicted at once."""
    width: int = 256
    """Width of the hidden layer."""
    normalization_mapping: dict[str, NormalizationMode] = field(default_factory=ALIKE.copy)
    """How each kind of feature is normalized."""

    def reads(self, feature: PolicyFeature) -> bool:
        """Everything but cameras."""
        return feature.type is not FeatureType.VISUAL

    @property
    def action_offsets(self) -> list[int]:
        """One action per future step of the chunk."""
        return list(range(self.chunk_size))

    def optimizer_preset(self) -> OptimizerConfig:
        """What it is trained with unless flags say otherwise."""
        return AdamWConfig(lr=1e-3)

    def faults(self) -> list[str]:
        """What the command line is told, with exit code 2."""
        return [] if self.width > 0 else [f"--policy.width={self.width} must be at least 1"]
