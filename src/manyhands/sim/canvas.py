"""Anti-aliased painting of rounded boxes, by their signed distance to every pixel.

A canvas holds one image per world, and every shape is painted in all of them at once: centers
and axes are arrays (worlds, 2), other sizes a number or one per world. No image depends on
which others it is painted with.
"""

from dataclasses import dataclass

import numpy as np

Scalar = float | np.ndarray
Color = tuple[float, float, float]

RIGHT = np.array([[1.0, 0.0]])


@dataclass(frozen=True)
class RoundedBox:
    """A turned box with round corners: a disk when all sizes are equal, else a bar or block."""

    center: np.ndarray
    half_length: Scalar
    half_width: Scalar
    corner: Scalar
    axis: np.ndarray
    """Unit vectors along its length."""

    def distance(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """How far points (worlds, rows, columns) lie outside; negative inside."""
        x, y = x - _spread(self.center[:, 0]), y - _spread(self.center[:, 1])
        cosine, sine = _spread(self.axis[:, 0]), _spread(self.axis[:, 1])
        corner = _spread(self.corner)
        along = np.abs(cosine * x + sine * y) - (_spread(self.half_length) - corner)
        across = np.abs(cosine * y - sine * x) - (_spread(self.half_width) - corner)
        inside = np.minimum(np.maximum(along, across), 0)
        along, across = np.maximum(along, 0), np.maximum(across, 0)
        distance: np.ndarray = np.sqrt(along * along + across * across) + (inside - corner)
        return distance

    def reach(self) -> np.ndarray:
        """How far the box extends from its center to the right and upwards: (worlds, 2)."""
        length, width = np.reshape(self.half_length, (-1, 1)), np.reshape(self.half_width, (-1, 1))
        axis = np.abs(self.axis)
        reach: np.ndarray = length * axis + width * axis[:, ::-1]
        return reach


def disk(center: np.ndarray, radius: Scalar) -> RoundedBox:
    """A round shape."""
    return RoundedBox(center, radius, radius, radius, RIGHT)


class Canvas:
    """Square images of tables; x from -1 to 1 goes right, y from -1 to 1 goes up."""

    def __init__(self, background: np.ndarray, num_worlds: int) -> None:
        self.pixels = np.repeat(background[None], num_worlds, axis=0)
        self._size = len(background)
        self._centers = pixel_centers(self._size)

    def paint(
        self, shape: RoundedBox, color: Color, opacity: Scalar = 1.0, blur: Scalar = 0.0
    ) -> None:
        """Cover the shape with a color; `blur` is the width over which its edge fades."""
        fade = np.maximum(blur, 2.0 / self._size)
        reach = shape.reach() + np.reshape(fade / 2, (-1, 1))
        columns = self._window(shape.center[:, 0], reach[:, 0])
        rows = self._window(-shape.center[:, 1], reach[:, 1])
        x, y = self._centers[columns][:, None, :], -self._centers[rows][:, :, None]

        ramp = np.minimum(np.maximum(0.5 - shape.distance(x, y) / _spread(fade), 0), 1)
        coverage = _spread(opacity) * ramp * ramp * (3 - 2 * ramp)
        ink = np.array(color, dtype=np.float32)
        for picture, row, column, cover in zip(self.pixels, rows, columns, coverage, strict=True):
            patch = picture[row[0] : row[-1] + 1, column[0] : column[-1] + 1]
            patch += cover[:, :, None] * (ink - patch)

    def frames(self) -> np.ndarray:
        """The current images as uint8."""
        return (self.pixels * 255 + 0.5).astype(np.uint8)

    def _window(self, center: np.ndarray, reach: np.ndarray) -> np.ndarray:
        """Pixels (worlds, count) along one side that the shape can touch; none other changes."""
        half = self._size / 2
        count = min(int(2 * half * reach.max()) + 2, self._size)
        first = np.floor(half * (1 + center - reach)).astype(int)
        pixels: np.ndarray = np.clip(first, 0, self._size - count)[:, None] + np.arange(count)
        return pixels


def pixel_centers(size: int) -> np.ndarray:
    """Coordinates of the pixels' centers along one side."""
    return (2 * np.arange(size, dtype=np.float32) + 1) / np.float32(size) - 1


def _spread(values: Scalar) -> np.ndarray:
    """Values per world, shaped to broadcast over (worlds, rows, columns)."""
    return np.reshape(values, (-1, 1, 1)).astype(np.float32)
