"""How a dataset is read: features to skip, rename and resize, and the shared files' folder."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from manyhands.data.columns import ArrayColumn
from manyhands.data.images.cameras import ImageSource
from manyhands.data.images.formats import Size
from manyhands.lerobot_format import names
from manyhands.lerobot_format.dataset.features import Feature


class CameraCache(Protocol):
    """Caches decoded images, so that each is decoded once."""

    def column(self, key: str, source: ImageSource, drops_single_axis: bool) -> ArrayColumn:
        """A camera's column that reads through the cache."""


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """Options for a complete dataset; keys are the dataset's own unless noted."""

    skip: Collection[str] = ()  # Features that are never read
    rename_map: Mapping[str, str] = field(default_factory=dict)  # Delivered names
    image_size: Size | None = None  # Height and width that color images are resized to
    depth_unit: str = "mm"  # Unit in which distances are delivered: m or mm
    as_vectors: bool = False  # Deliver observations and actions of any shape as vectors
    on_bad: str = "fail"  # With `skip`, a dataset is opened without the episodes that have faults
    home: Path | None = None  # Folder for files that processes share; None is the default
    cache: CameraCache | None = None  # Cache of decoded images; None decodes them every time

    def delivered(self, key: str) -> str:
        """The name a feature is delivered under."""
        return self.rename_map.get(key, key)

    def delivered_features(self, features: Mapping[str, Feature]) -> dict[str, Feature]:
        """Features that are read, as they are delivered."""
        return {
            self.delivered(key): self._reshaped(key, feature)
            for key, feature in features.items()
            if key not in self.skip
        }

    def is_vector(self, key: str, feature: Feature) -> bool:
        """Whether a feature is delivered with one axis, whatever its own."""
        is_read = self.delivered(key).startswith((names.OBSERVATION, names.ACTION))
        return self.as_vectors and is_read and feature.is_number

    def _reshaped(self, key: str, feature: Feature) -> Feature:
        if self.is_vector(key, feature):
            return replace(feature, shape=(math.prod(feature.shape),))
        return self._resized(feature)

    def _resized(self, feature: Feature) -> Feature:
        if self.image_size is None or not feature.is_camera or feature.is_depth:
            return feature
        channels, size = feature.channel_first_shape[0], self.image_size
        shape = (*size, channels) if feature.channels_last else (channels, *size)
        return replace(feature, shape=shape)
