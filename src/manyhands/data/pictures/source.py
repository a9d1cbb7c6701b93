"""Where the pictures of a camera come from."""

from collections.abc import Iterator
from typing import Protocol

import numpy as np


class PictureSource(Protocol):
    """The pictures of one camera by frame, as they are recorded."""

    shape: tuple[int, ...]
    """Channels, height, width."""
    dtype: np.dtype
    """uint8; float32 where pictures hold distances."""

    def pictures(self, frames: np.ndarray) -> Iterator[np.ndarray]:
        """Decoded pictures of that shape in the order of `frames`, which must rise.

        A frame is a number in the whole dataset, whichever episodes are chosen.
        """
