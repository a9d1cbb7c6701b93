"""How a dataset is read: what is left out, renamed, resized, and where shared files lie."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from manyhands.data.columns import ArrayColumn
from manyhands.data.pictures.form import Size
from manyhands.data.pictures.source import PictureSource


class CameraCache(Protocol):
    """Keeps decoded pictures, so that each is decoded once."""

    def column(self, key: str, source: PictureSource, drops_single_axis: bool) -> ArrayColumn:
        """A camera's column that reads what is kept and keeps what it reads."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Choices that hold for a whole dataset; keys are the dataset's own unless said otherwise."""

    skip: Collection[str] = ()
    """Features that are never read."""
    rename_map: Mapping[str, str] = field(default_factory=dict)
    """Names under which features are delivered instead of their own."""
    image_size: Size | None = None
    """Height and width that color pictures are resized to as they are decoded."""
    depth_unit: str = "mm"
    """Unit in which distances are delivered: m or mm."""
    home: Path | None = None
    """Folder for files that processes share; None is the usual one."""
    cache: CameraCache | None = None
    """Where decoded pictures are kept; None decodes them every time."""

    def delivered(self, key: str) -> str:
        """The name a feature is delivered under."""
        return self.rename_map.get(key, key)
