"""Source of a camera's images."""

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import numpy as np


class PictureSource(Protocol):
    """The images of one camera by frame, as they are recorded."""

    shape: tuple[int, ...]
    """Channels, height, width."""
    dtype: np.dtype
    """uint8; float32 where images hold distances."""
    paths: list[Path]
    """Files that hold the images; those of episodes that are not chosen may be missing."""

    def layout(self) -> bytes:
        """Describes the location of every frame in those files and its conversion."""

    def pictures(self, frames: np.ndarray) -> Iterator[np.ndarray]:
        """Decoded images of that shape in the order of `frames`, which must be ascending.

        A frame is a number in the complete dataset, whichever episodes are chosen.
        """
