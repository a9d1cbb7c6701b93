"""Where the pictures of a camera come from."""

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import numpy as np


class PictureSource(Protocol):
    """The pictures of one camera by frame, as they are recorded."""

    shape: tuple[int, ...]
    """Channels, height, width."""
    dtype: np.dtype
    """uint8; float32 where pictures hold distances."""
    paths: list[Path]
    """Files that hold the pictures; those of episodes that are not chosen may be missing."""

    def layout(self) -> bytes:
        """What says where in those files a frame lies and what becomes of it."""

    def pictures(self, frames: np.ndarray) -> Iterator[np.ndarray]:
        """Decoded pictures of that shape in the order of `frames`, which must rise.

        A frame is a number in the whole dataset, whichever episodes are chosen.
        """
