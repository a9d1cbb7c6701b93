"""How videos of distances code them as pixels."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

DEPTH_UNITS = ("mm", "m")
_LARGEST_CODE = 4095


@dataclass(frozen=True)
class DepthScale:
    """The distances, in meters, that the pixels of a video stand for."""

    min: float = 0.01
    max: float = 10.0
    shift: float = 3.5
    use_log: bool = True
    """Whether equal steps of a pixel are equal ratios of `distance + shift`."""

    def meters(self, codes: np.ndarray) -> np.ndarray:
        """Distances from pixels of 12 bits."""
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
    """The scale that facts about a video stream state; a ValueError tells nonsense."""
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
