"""How a dataset is read: features to skip, rename and resize, and the shared files' folder."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from manyhands.data.columns import ArrayColumn
from manyhands.data.images.cameras import ImageSource
from manyhands.data.images.formats import Size
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
    home: Path | None = None  # Folder for files that processes share; None is the default
    cache: CameraCache | None = None  # Cache of decoded images; None decodes them every time

    def delivered(self, key: str) -> str:
        """The name a feature is delivered under."""
        return self.rename_map.get(key, key)

    def delivered_features(self, features: Mapping[str, Feature]) -> dict[str, Feature]:
        """Features that are read, as they are delivered."""
        return {
            self.delivered(key): self._resized(feature)
            for key, feature in features.items()
            if key not in self.skip
        }

    def _resized(self, feature: Feature) -> Feature:
        if self.image_size is None or not feature.is_camera or feature.is_depth:
            return feature
        channels, size = feature.channel_first_shape[0], self.image_size
        shape = (*size, channels) if feature.channels_last else (channels, *size)
        return replace(feature, shape=shape)
