"""A feature of a dataset as `meta/info.json` declares it: numbers, images, depth or text."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from manyhands.lerobot_format import names
from manyhands.lerobot_format.dataset.tables import whole_number

DEPTH_UNITS = ("mm", "m")
_LARGEST_CODE = 4095


@dataclass(frozen=True)
class DepthScale:
    """The distances, in meters, that the pixels of a video encode."""

    min: float = 0.01
    max: float = 10.0
    shift: float = 3.5
    use_log: bool = True  # Whether equal steps of a pixel are equal ratios of `distance + shift`

    def meters(self, codes: np.ndarray) -> np.ndarray:
        """Convert 12-bit pixels to distances."""
        steps = np.linspace(0, 1, _LARGEST_CODE + 1)
        if self.use_log:
            first, last = math.log(self.min + self.shift), math.log(self.max + self.shift)
            distances = np.exp(first + steps * (last - first)) - self.shift
        else:
            distances = self.min + steps * (self.max - self.min)
        table = np.clip(distances, self.min, self.max)
        meters: np.ndarray = table[np.minimum(codes, _LARGEST_CODE)]
        return meters


def parse_depth_scale(info: Mapping[str, Any]) -> DepthScale:
    """Parse the depth scale of a video stream; raises ValueError if it is invalid."""
    scale = DepthScale(
        min=_length(info, "video.depth_min", DepthScale.min),
        max=_length(info, "video.depth_max", DepthScale.max),
        shift=_length(info, "video.shift", DepthScale.shift),
        use_log=info.get("video.use_log", DepthScale.use_log),
    )
    if not isinstance(scale.use_log, bool):
        raise ValueError(f"video.use_log must be true or false, not {scale.use_log!r:.60}")
    if not 0 <= scale.min < scale.max:
        raise ValueError(
            f"video.depth_min {scale.min:g} must be from 0 to video.depth_max {scale.max:g}"
        )
    if scale.use_log and scale.min + scale.shift <= 0:
        raise ValueError(
            f"video.depth_min + video.shift must be positive, not {scale.min + scale.shift:g}"
        )
    return scale


def _length(info: Mapping[str, Any], key: str, default: float) -> float:
    value = info.get(key, default)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not abs(value) < 1e9:
        raise ValueError(
            f"{key} must be a length in meters, not {value!r:.60}. Set the value used at recording"
        )
    return float(value)


MAX_DIMS = 5
_MAX_VALUES = 2**31  # Values of one feature in one frame, of which a row cannot hold more
_DEPTH_FLAGS = ("is_depth_map", "video.is_depth_map")


@dataclass(frozen=True)
class Feature:
    """One column or camera: its dtype, and its shape without a time axis."""

    dtype: str
    shape: tuple[int, ...]
    names: Any = None
    info: dict[str, Any] = field(default_factory=dict)  # Facts about a camera's video stream

    @property
    def is_camera(self) -> bool:
        """Whether the values are images."""
        return self.dtype in (names.IMAGE, names.VIDEO)

    @property
    def is_depth(self) -> bool:
        """Whether the images are depth maps; LeRobot's releases flag it in different places."""
        return any(self.info.get(flag) for flag in _DEPTH_FLAGS)

    @property
    def depth_unit(self) -> str | None:
        """The unit of recorded distances, `mm` or `m`; None if unknown."""
        return self.info.get("depth_unit")

    @property
    def depth_scale(self) -> DepthScale:
        """The encoding of distances in a depth video."""
        return parse_depth_scale(self.info)

    @property
    def is_number(self) -> bool:
        """Whether the values are numbers or booleans."""
        return not self.is_camera and self.dtype not in (names.STRING, names.LANGUAGE)

    @property
    def channels_last(self) -> bool:
        """Whether an image's shape is declared as height, width, channels."""
        labels = self.names if isinstance(self.names, list | tuple) else ()
        return len(labels) == 3 and labels[2] in ("channel", "channels")

    @property
    def channel_first_shape(self) -> tuple[int, ...]:
        """The shape with an image's channels first; other shapes are unchanged."""
        if not (self.is_camera and self.channels_last):
            return self.shape
        height, width, channels = self.shape
        return (channels, height, width)


def parse_features(document: Mapping[str, Any]) -> dict[str, Feature]:
    """Parse features from LeRobot's format; raises ValueError that names the invalid one."""
    if not isinstance(document, Mapping):
        raise ValueError(f"features must be an object, not {document!r:.60}")
    return {key: _parse_feature(key, entry) for key, entry in document.items()}


def feature_document(feature: Feature) -> dict[str, Any]:
    """Encode a feature in LeRobot's format."""
    document = {"dtype": feature.dtype, "shape": list(feature.shape), "names": feature.names}
    return document | {"info": feature.info} if feature.info else document


def _parse_feature(key: str, entry: Any) -> Feature:
    if key in ("", ".", "..") or "/" in key or not key.isprintable():
        raise ValueError(
            f"feature name {key!r:.100} must not contain a slash, nor be a folder name such as .."
        )
    if not isinstance(entry, Mapping):
        raise ValueError(f"feature {key} must be an object, not {entry!r:.60}")
    feature = Feature(
        dtype=str(entry.get("dtype")),
        shape=_parse_shape(key, entry.get("shape")),
        names=entry.get("names"),
        info={**_stream_facts(key, entry, "video_info"), **_stream_facts(key, entry, "info")},
    )
    if feature.is_camera and len(feature.shape) != 3:
        raise ValueError(
            f"feature {key}: a camera needs a shape of three sizes, not {list(feature.shape)}"
        )
    if feature.is_number and not _is_number_type(feature.dtype):
        raise ValueError(f"feature {key}: unknown dtype {feature.dtype!r:.60}")
    _check_depth(key, feature)
    return feature


def _parse_shape(key: str, shape: object) -> tuple[int, ...]:
    if not isinstance(shape, list | tuple):
        raise ValueError(f"feature {key}: shape must be a list of sizes, not {shape!r:.60}")
    if len(shape) > MAX_DIMS:
        raise ValueError(f"feature {key} must have 1 to {MAX_DIMS} dimensions, not {len(shape)}")
    sizes = tuple(whole_number(size, f"feature {key}: a size in shape", least=1) for size in shape)
    if math.prod(sizes) >= _MAX_VALUES:
        raise ValueError(f"feature {key}: shape {list(sizes)} is too large for a row")
    return sizes


def _stream_facts(key: str, entry: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    facts = entry.get(name)
    if facts is not None and not isinstance(facts, Mapping):
        raise ValueError(f"feature {key}: {name} must be an object, not {facts!r:.60}")
    return facts or {}


def _check_depth(key: str, feature: Feature) -> None:
    for flag in _DEPTH_FLAGS:
        if feature.info.get(flag) not in (True, False, None):
            raise ValueError(f"feature {key}: {flag} must be true or false")
    if not (feature.is_camera and feature.is_depth):
        return
    unit = feature.depth_unit
    if unit not in (*DEPTH_UNITS, None):
        raise ValueError(f"feature {key}: depth_unit must be mm or m, not {unit!r:.60}")
    if feature.dtype == names.VIDEO:
        try:
            parse_depth_scale(feature.info)
        except ValueError as error:
            raise ValueError(f"feature {key}: {error}") from None


def _is_number_type(dtype: str) -> bool:
    # Longer strings describe structured types.
    if re.fullmatch(r"[<>=|]?[A-Za-z]+\d{0,3}", dtype) is None:
        return False
    try:
        return np.dtype(dtype).kind in "fiub"
    except (TypeError, ValueError):
        return False
