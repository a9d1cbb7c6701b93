"""How a camera's images are delivered: colors as bytes, depth as distances, in a chosen size."""

from dataclasses import dataclass

import numpy as np

from manyhands.errors import DatasetError
from manyhands.lerobot_format.dataset.info import Feature

Size = tuple[int, int]  # Height and width

_STORED_COLORS = {1: "gray", 3: "rgb24", 4: "rgba"}
_METERS = {"m": 1.0, "mm": 0.001}
_MAX_MILLIMETERS = 65535


@dataclass(frozen=True)
class ColorForm:
    """Colors or shades of gray from 0 to 255."""

    shape: tuple[int, ...]  # Channels, height, width as delivered
    size: Size | None  # Size that images are resized to; None keeps the recorded size
    dtype = np.dtype(np.uint8)
    video_pixels = "rgb24"  # FFmpeg's pixel format that a video frame is converted to

    @property
    def stored_pixels(self) -> str | None:
        """The same for an image in the table, or a ValueError; None keeps the stored format."""
        if self.shape[0] not in _STORED_COLORS:
            raise ValueError(f"meta/info.json declares {self.shape[0]} channels")
        return _STORED_COLORS[self.shape[0]]

    def delivered(self, pixels: np.ndarray, is_video: bool) -> np.ndarray:
        """The channels in front."""
        return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)


@dataclass(frozen=True)
class DepthForm:
    """Distances: coded in 12 bits in a video, as they were measured in the table."""

    shape: tuple[int, ...]
    size: Size | None
    feature: Feature
    unit: str  # Delivered unit: m or mm
    dtype = np.dtype(np.float32)
    video_pixels = "gray12le"
    stored_pixels = None

    def delivered(self, pixels: np.ndarray, is_video: bool) -> np.ndarray:
        """Distances with one channel in front."""
        if not is_video:
            pixels = pixels * np.float32(depth_factor(self.feature, self.unit))
        else:
            pixels = self.feature.depth_scale.meters(pixels)
            if self.unit == "mm":
                pixels = np.clip(np.rint(pixels * 1000), 0, _MAX_MILLIMETERS)
        return pixels.astype(np.float32)[None]


ImageFormat = ColorForm | DepthForm  # Conversion of a decoded image


def image_format(feature: Feature, size: Size | None = None, depth_unit: str = "mm") -> ImageFormat:
    """The form in which a camera's images are delivered."""
    shape = feature.channel_first_shape
    if size is not None:
        shape = (shape[0], *size)
    if feature.is_depth:
        return DepthForm(shape, size, feature, depth_unit)
    return ColorForm(shape, size)


def depth_factor(feature: Feature, unit: str) -> float:
    """Factor from recorded distances to a unit; 1 if no unit was recorded."""
    recorded = feature.depth_unit or unit
    return _METERS[recorded] / _METERS[unit]


def checked(picture: np.ndarray, form: ImageFormat, where: str) -> np.ndarray:
    """An image as delivered, which must have the shape that was declared."""
    if picture.shape != form.shape:
        seen, declared = ("x".join(map(str, sizes)) for sizes in (picture.shape, form.shape))
        raise DatasetError(
            f"{where}: an image is {seen} (channels x height x width), but meta/info.json "
            f"declares {declared}"
        )
    return picture
