"""Build a transform from its configuration."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from torch import Tensor

from manyhands.config.transforms import TransformConfig
from manyhands.data.augment.blur import GaussianBlur, MotionBlur, SharpnessJitter
from manyhands.data.augment.color import ColorJitter, GammaCorrection
from manyhands.data.augment.dropout import CoarseDropout
from manyhands.data.augment.geometry import RandomAffine
from manyhands.data.augment.light import GaussianPatchBrightness, RandomShadow
from manyhands.data.augment.noise import GaussianNoise
from manyhands.data.augment.white import PlanckianJitter


class Transform(Protocol):
    """Changes each sample by its own draw: a pure function without device synchronization."""

    @property
    def num_uniforms(self) -> int:
        """Random numbers from 0 to 1 that a sample needs."""

    def __call__(self, pictures: Tensor, uniforms: Tensor) -> Tensor:
        """New images (samples, frames, channels, height, width) from uniforms (samples, n)."""


@dataclass(frozen=True)
class Identity:
    """Nothing."""

    num_uniforms: ClassVar[int] = 0

    def __call__(self, pictures: Tensor, uniforms: Tensor) -> Tensor:
        """The images unchanged."""
        return pictures


CLASSES: Mapping[str, Callable[..., Transform]] = {
    each.__name__: each
    for each in (
        Identity,
        ColorJitter,
        SharpnessJitter,
        RandomAffine,
        GaussianBlur,
        GaussianNoise,
        MotionBlur,
        GammaCorrection,
        CoarseDropout,
        GaussianPatchBrightness,
        RandomShadow,
        PlanckianJitter,
    )
}


def transform_of(config: TransformConfig) -> Transform:
    """Build the transform of a valid configuration."""
    values: dict[str, Any] = config.values()
    return CLASSES[config.type](**values)
