"""Image augmentation settings: LeRobot's `image_transforms`."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from manyhands.config.schema.json_values import closest_match
from manyhands.config.schema.rules import at_least
from manyhands.config.sections.transform_types import REQUIRED, TRANSFORM_TYPES

FLAG = "--dataset.image_transforms"


@dataclass(frozen=True, kw_only=True)
class TransformConfig:
    """One entry of the set from which transforms are sampled."""

    weight: float = 1.0
    """Relative probability of drawing this entry; 0: never."""
    type: str = "Identity"
    """Type of the transform, such as ColorJitter."""
    kwargs: dict[str, Any] = field(default_factory=dict)
    """Arguments of the type."""

    def values(self) -> dict[str, Any]:
        """Every kwarg of the type in normalized form, with defaults for missing ones."""
        return {
            name: kwarg.default if self.kwargs.get(name) is None else kwarg.read(self.kwargs[name])
            for name, kwarg in TRANSFORM_TYPES[self.type].items()
        }

    def faults(self) -> Iterator[str]:
        """Yield everything invalid about this entry."""
        if not 0 <= self.weight < math.inf:
            yield f"weight={self.weight} must be at least 0"
        if self.type == "JPEGCompression":
            yield "type=JPEGCompression is not supported on the device. Remove this entry"
        elif self.type not in TRANSFORM_TYPES:
            known = ", ".join(TRANSFORM_TYPES)
            hint = closest_match(self.type, TRANSFORM_TYPES)
            yield f"type={self.type} is unknown; choose from {known}{hint}"
        else:
            yield from self._kwarg_faults()

    def _kwarg_faults(self) -> Iterator[str]:
        known = TRANSFORM_TYPES[self.type]
        given = {name: value for name, value in self.kwargs.items() if value is not None}
        for name, value in given.items():
            if name not in known:
                choices = f"it has {', '.join(known)}" if known else "it has none"
                hint = closest_match(name, known)
                yield f"kwargs.{name} is not one of {self.type}: {choices}{hint}"
                continue
            try:
                known[name].read(value)
            except ValueError as error:
                yield f"kwargs.{name}={value} {error}"
        for name, kwarg in known.items():
            if kwarg.default is REQUIRED and name not in given:
                yield f"kwargs.{name} is missing; {self.type} requires it"
        if self.type == "ColorJitter" and not given:
            yield f"kwargs is empty; ColorJitter needs at least one of {', '.join(known)}"


def _default_entries() -> dict[str, TransformConfig]:
    jitters = {
        "brightness": [0.8, 1.2],
        "contrast": [0.8, 1.2],
        "saturation": [0.5, 1.5],
        "hue": [-0.05, 0.05],
    }
    entries = {
        name: TransformConfig(type="ColorJitter", kwargs={name: ends})
        for name, ends in jitters.items()
    }
    sharpness = TransformConfig(type="SharpnessJitter", kwargs={"sharpness": [0.5, 1.5]})
    moves = {"degrees": [-5.0, 5.0], "translate": [0.05, 0.05]}
    affine = TransformConfig(type="RandomAffine", kwargs=moves)
    return entries | {"sharpness": sharpness, "affine": affine}


@dataclass(frozen=True, kw_only=True)
class ImageTransformsConfig:
    """Image augmentation."""

    enable: bool = False
    """Augment the training images at random; validation and inference never do."""
    max_num_transforms: int = 3
    """Transforms per image, drawn by weight without replacement."""
    random_order: bool = False
    """Apply them in random order instead of the listed one; slower."""
    tfs: dict[str, TransformConfig] = field(default_factory=_default_entries)
    """Entries by name: a weight, a type and its kwargs; docs/augmentation.md lists the types."""

    def faults(self) -> list[str]:
        """Return everything invalid about an enabled augmentation."""
        if not self.enable:
            return []
        faults = [*at_least(self, "dataset.image_transforms.", 0, "max_num_transforms")]
        if not any(entry.weight for entry in self.tfs.values()):
            faults.append(f"{FLAG}.tfs has no entry with a weight above 0")
        for name, entry in self.tfs.items():
            # An entry of weight zero is never sampled.
            invalid = entry.faults() if entry.weight else ()
            faults += (f"{FLAG}.tfs: {name}.{fault}" for fault in invalid)
        return faults
