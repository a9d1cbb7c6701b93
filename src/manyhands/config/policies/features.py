"""Features of a policy: types, normalization modes, and its tokenizer."""

from dataclasses import dataclass
from enum import StrEnum


class FeatureType(StrEnum):
    """Feature types, by LeRobot's names."""

    STATE = "STATE"
    VISUAL = "VISUAL"
    ENV = "ENV"
    ACTION = "ACTION"
    REWARD = "REWARD"
    LANGUAGE = "LANGUAGE"


class NormalizationMode(StrEnum):
    """Normalization modes, by LeRobot's names."""

    MIN_MAX = "MIN_MAX"
    MEAN_STD = "MEAN_STD"
    IDENTITY = "IDENTITY"
    QUANTILES = "QUANTILES"
    QUANTILE10 = "QUANTILE10"


@dataclass(frozen=True)
class PolicyFeature:
    """A feature as a policy sees it; images are channel-first."""

    type: FeatureType
    shape: tuple[int, ...]


@dataclass(frozen=True)
class LanguageConfig:
    """The tokenizer of a policy, and its maximum length."""

    tokenizer_name: str
    """Folder or name on the Hub."""
    max_length: int
    padding: str
    """Whether texts are padded to that length (max_length) or to the longest of a batch."""
