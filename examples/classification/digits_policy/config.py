"""Values of the policy: each is a flag `--policy.<name>` and a key of its `config.json`."""

from dataclasses import dataclass, field
from typing import ClassVar

from manyhands.config.policies.base import PolicyConfig
from manyhands.config.policies.features import FeatureType, NormalizationMode, PolicyFeature
from manyhands.config.sections.optim import AdamWConfig, OptimizerConfig

NUM_CLASSES = 10
# Images are normalized by the statistics of the dataset; a class is what it is.
NORMALIZATION = {"VISUAL": NormalizationMode.MEAN_STD, "ACTION": NormalizationMode.IDENTITY}


@dataclass(frozen=True, kw_only=True)
class DigitsConfig(PolicyConfig):
    """A classifier of digits, whose action is a score per class."""

    type: ClassVar[str] = "digits"

    has_dropout: bool = True
    """Drop a fourth of the maps and half of the hidden values in training."""
    normalization_mapping: dict[str, NormalizationMode] = field(default_factory=NORMALIZATION.copy)
    """How each kind of feature is normalized."""

    def reads(self, feature: PolicyFeature) -> bool:
        """Cameras only."""
        return feature.type is FeatureType.VISUAL

    @property
    def action_offsets(self) -> list[int]:
        """The class of the current image."""
        return [0]

    def optimizer_preset(self) -> OptimizerConfig:
        """What it is trained with unless flags say otherwise."""
        return AdamWConfig(lr=1e-3)

    def feature_faults(self) -> list[str]:
        """What does not fit a classifier of square images."""
        shapes = [feature.shape for feature in self.input_features.values()]
        faults = super().feature_faults()
        if len(shapes) != 1 or shapes[0][1] != shapes[0][2]:
            faults.append(f"the policy needs one camera with square images, not {shapes}")
        action = self.output_features.get("action")
        if action is not None and action.shape != (NUM_CLASSES,):
            faults.append(f"the policy needs {NUM_CLASSES} classes as action, not {action.shape}")
        return faults
