"""Specification of a store: every frame of one camera, all of one shape, in one encoding."""

from dataclasses import dataclass, field
from math import prod
from typing import Literal

import numpy as np

Encoding = Literal["raw", "jpeg"]


@dataclass(frozen=True)
class StoreSpec:
    """The frames of a store."""

    key: str
    """Name of the store, unique to its pixels."""
    shape: tuple[int, ...]
    dtype: np.dtype
    num_frames: int
    encoding: Encoding = "raw"
    description: dict[str, str] = field(default_factory=dict)
    """For users: dataset, camera and the like."""

    def __post_init__(self) -> None:
        assert self.num_frames > 0 and prod(self.shape) > 0
        if self.encoding == "jpeg":
            assert self.dtype == np.uint8 and len(self.shape) == 3 and self.shape[0] == 3

    @property
    def frame_bytes(self) -> int:
        """Size of a frame in memory."""
        return prod(self.shape) * self.dtype.itemsize

    def capacity(self, max_bytes: int) -> int:
        """Number of frames, the first ones, that fit into so many bytes."""
        if self.encoding == "jpeg":
            return self.num_frames
        return min(self.num_frames, max_bytes // self.frame_bytes)
