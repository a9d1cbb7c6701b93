"""A camera, and how thoroughly its images are checked."""

import math
from dataclasses import dataclass

from manyhands.lerobot_format.dataset_info import Feature

_FRAME_S = 1e-4
_PIXEL_S = 1e-8
_FEW = 64
"""Frames that are decoded to see the first and the last one."""


@dataclass(frozen=True)
class Camera:
    """A camera to check."""

    key: str
    feature: Feature
    fps: float
    is_full: bool
    """Check every image, not only the first and last."""

    def cost_s(self, num_frames: int) -> float:
        """Estimated time to check images."""
        num_decoded = num_frames if self.is_full else min(num_frames, _FEW)
        return num_decoded * (_FRAME_S + _PIXEL_S * math.prod(self.feature.shape[:2]))
