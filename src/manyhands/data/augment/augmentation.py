"""Image augmentation of a batch on its device, seeded per sample.

Every transform runs on the complete batch and applies where a sample has drawn it: the work does
not depend on the draws, so nothing ever synchronizes with the device.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor

from manyhands.config.policies.features import FeatureType, PolicyFeature
from manyhands.config.sections.image_transforms import FLAG, ImageTransformsConfig, TransformConfig
from manyhands.data.augment.blur import GaussianBlur, MotionBlur, SharpnessJitter
from manyhands.data.augment.color import ColorJitter, GammaCorrection, PlanckianJitter
from manyhands.data.augment.corruption import CoarseDropout, GaussianNoise
from manyhands.data.augment.geometry import RandomAffine
from manyhands.data.augment.light import GaussianPatchBrightness, RandomShadow
from manyhands.data.augment.ranges import per_sample
from manyhands.errors import ConfigError
from manyhands.types import Batch, Draws, DrawSource


@dataclass(frozen=True)
class TransformChoice:
    """How many entries are chosen, by which weights, and how they follow each other."""

    weights: Sequence[float]
    num_chosen: int
    random_order: bool

    def places(self, source: DrawSource) -> Tensor:
        """Each entry's place (samples, entries) in a drawing by weight without replacement."""
        # Exponential waiting times with the weights as rates come in just that order. The squared
        # length of a normal pair is such a time; unlike a logarithm it has the same bits anywhere.
        squares = source.normal(len(self.weights), 2).square()
        means = inverse_weights(tuple(self.weights), squares.device)
        waits = (squares[..., 0] + squares[..., 1]) * means
        return waits.argsort(dim=1, stable=True).argsort(dim=1).float()

    def rounds(self, places: Tensor) -> list[Tensor]:
        """Who gets which entry (samples, entries) in each pass through the entries as listed."""
        # In listed order one pass is enough. In random order a sample gets one entry per pass.
        if self.random_order:
            return [places == number for number in range(self.num_chosen)]
        return [places < self.num_chosen]


@lru_cache
def inverse_weights(weights: tuple[float, ...], device: torch.device) -> Tensor:
    """Inverse weights; they stay on their device, since a CUDA graph cannot copy from the host."""
    return torch.tensor([1 / weight for weight in weights], device=device)


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


def build_transform(config: TransformConfig) -> Transform:
    """Build the transform of a valid configuration."""
    values: dict[str, Any] = config.values()
    return CLASSES[config.type](**values)


NUM_COLORS = 3


class Augmentation:
    """Transforms the color cameras of a batch; depth cameras and all else are unchanged."""

    def __init__(
        self, config: ImageTransformsConfig, cameras: Mapping[str, tuple[int, ...]]
    ) -> None:
        self.cameras = sorted(name for name, shape in cameras.items() if shape[0] == NUM_COLORS)
        listed = config.tfs.values() if self.cameras else ()
        entries = [entry for entry in listed if entry.weight > 0]
        self._transforms = [build_transform(entry) for entry in entries]
        self._plan = TransformChoice(
            weights=[entry.weight for entry in entries],
            num_chosen=min(config.max_num_transforms, len(entries)),
            random_order=config.random_order,
        )
        self._sizes = [len(entries), *(each.num_uniforms for each in self._transforms)]

    def draw(self, source: DrawSource) -> dict[str, Tensor]:
        """By camera and sample, the places of all entries and what each needs to be random."""
        num_uniforms = sum(self._sizes[1:])
        return {
            camera: torch.cat([self._plan.places(source), source.uniform(num_uniforms)], dim=1)
            for camera in self.cameras
        }

    def __call__(self, batch: Batch, draws: Draws) -> Batch:
        """The batch with its cameras as floats from 0 to 1 on the draws' device, transformed."""
        if not self.cameras:
            return batch
        # The frames of one camera share the draw of their sample.
        return batch | {name: self._augmented(batch[name], draws[name]) for name in self.cameras}

    def _augmented(self, images: Tensor, draws: Tensor) -> Tensor:
        pictures = images.to(draws.device, non_blocking=True).float()
        pictures = pictures / 255 if images.dtype == torch.uint8 else pictures
        pictures = pictures.unsqueeze(1) if images.ndim == 4 else pictures
        places, *uniforms = draws.split_with_sizes(self._sizes, dim=1)
        for chosen in self._plan.rounds(places):
            for number, transform in enumerate(self._transforms):
                changed = transform(pictures, uniforms[number])
                pictures = torch.where(per_sample(chosen[:, number]), changed, pictures)
        return pictures.reshape(images.shape)


def build_augmentation(
    config: ImageTransformsConfig, features: Mapping[str, PolicyFeature]
) -> Augmentation:
    """Build the configured augmentation for the cameras among a policy's inputs; none if off."""
    if not config.enable or config.max_num_transforms == 0:
        return Augmentation(config, {})
    visual = {name: each for name, each in features.items() if each.type is FeatureType.VISUAL}
    augmentation = Augmentation(config, {name: each.shape for name, each in visual.items()})
    if not augmentation.cameras:
        seen = ", ".join(visual) or "no camera"
        raise ConfigError([f"{FLAG}.enable=true needs a color camera; the policy reads {seen}"])
    return augmentation
