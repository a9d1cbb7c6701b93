"""Images of the table from above, at any square size: a tray, a block and a robot arm."""

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

# A canvas holds one image per world, and every shape is painted in all of them at once: centers
# and axes are arrays (worlds, 2), other sizes a number or one per world. No image depends on which
# others it is painted with.
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
    axis: np.ndarray  # Unit vectors along its length

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


BLOCK_HALF = 0.085  # Half the side of the block
TRAY_RADIUS = 0.27  # Radius of the tray
BLOCK_OPENING = 0.5  # Opening at which the fingers touch the sides of a block between them
SHOULDER = np.array([0.0, -1.6])  # Where the arm is mounted, outside the image
LIGHT = np.array([0.5, -0.7])  # Direction in which shadows fall

SHADOW: Color = (0.16, 0.10, 0.07)
WOOD: Color = (0.90, 0.80, 0.66)
GLAZE: Color = (0.11, 0.42, 0.47)
BLOCK: Color = (0.93, 0.32, 0.22)
SHELL: Color = (0.96, 0.96, 0.95)
STEEL: Color = (0.66, 0.70, 0.74)
GRAPHITE: Color = (0.19, 0.22, 0.27)
SIGNAL: Color = (1.00, 0.70, 0.16)
WHITE: Color = (1.0, 1.0, 1.0)


@dataclass(frozen=True)
class Scene:
    """Positions (worlds, 2) in table units, openings and heights (worlds,) from 0 to 1."""

    gripper: np.ndarray
    opening: np.ndarray
    block: np.ndarray
    tray: np.ndarray
    height: np.ndarray  # Of the block: 0 on the table, 1 carried


def draw_scene(scene: Scene, size: int) -> np.ndarray:
    """The tables as the camera sees them: (worlds, size, size, 3) bytes."""
    canvas = Canvas(_table(size), len(scene.gripper))
    _draw_tray(canvas, scene.tray)
    _shade_block(canvas, scene)
    _shade_arm(canvas, scene)
    _draw_block(canvas, scene)
    _draw_arm(canvas, scene)
    return canvas.frames()


def _draw_tray(canvas: Canvas, center: np.ndarray) -> None:
    """A glazed dish with a bright rim; its wall towards the light lies in shade."""
    canvas.paint(disk(center + 0.06 * LIGHT, TRAY_RADIUS), SHADOW, 0.45, blur=0.10)
    canvas.paint(disk(center, TRAY_RADIUS), _mix(GLAZE, SHELL, 0.75))
    canvas.paint(disk(center, TRAY_RADIUS - 0.022), _mix(GLAZE, SHADOW, 0.45))
    canvas.paint(disk(center + 0.022 * LIGHT, TRAY_RADIUS - 0.05), GLAZE, blur=0.07)
    canvas.paint(disk(center + 0.022 * LIGHT, 0.13), _mix(GLAZE, SHELL, 0.22), 0.7, blur=0.20)


def _shade_block(canvas: Canvas, scene: Scene) -> None:
    """The block's shadow, farther away and softer while it is carried."""
    shape = _block_shape(scene, (0.05 + 0.10 * scene.height[:, None]) * LIGHT, BLOCK_HALF)
    canvas.paint(shape, SHADOW, 0.5 - 0.15 * scene.height, blur=0.05 + 0.05 * scene.height)


def _draw_block(canvas: Canvas, scene: Scene) -> None:
    """A cube from above: a darker side under a top face with a lighter middle."""
    half = BLOCK_HALF * (1 + 0.06 * scene.height)
    canvas.paint(_block_shape(scene, 0.02 * LIGHT, half), _mix(BLOCK, SHADOW, 0.45))
    canvas.paint(_block_shape(scene, -0.008 * LIGHT, half), BLOCK)
    middle = _block_shape(scene, -0.008 * LIGHT, 0.62 * half)
    canvas.paint(middle, _mix(BLOCK, SHELL, 0.3), 0.8, blur=0.04)


def _shade_arm(canvas: Canvas, scene: Scene) -> None:
    """The soft shadow of the arm, which hangs above the table."""
    for bar in _arm(scene):
        fallen = replace(bar, center=bar.center + 0.16 * LIGHT)
        canvas.paint(fallen, SHADOW, 0.28, blur=0.14)


def _draw_arm(canvas: Canvas, scene: Scene) -> None:
    """A telescope arm with a graphite hand; a bright middle makes each bar look round."""
    rod, sleeve, palm = _arm(scene)
    for finger in _fingers(scene):
        canvas.paint(finger, GRAPHITE)
        canvas.paint(_narrowed(finger, 0.35), _mix(GRAPHITE, SHELL, 0.35), 0.8, blur=0.02)
    for bar, color in ((rod, STEEL), (sleeve, SHELL)):
        canvas.paint(bar, _mix(color, SHADOW, 0.35))
        canvas.paint(_narrowed(bar, 0.8), color, blur=0.03)
        canvas.paint(_narrowed(bar, 0.25), WHITE, 0.8, blur=0.04)
    canvas.paint(palm, GRAPHITE)
    canvas.paint(_narrowed(palm, 0.4), _mix(GRAPHITE, SHELL, 0.25), 0.8, blur=0.03)
    canvas.paint(disk(palm.center, 0.062), SIGNAL)
    canvas.paint(disk(palm.center, 0.034), GRAPHITE)


def _arm(scene: Scene) -> tuple[RoundedBox, RoundedBox, RoundedBox]:
    axis = _axis(scene.gripper)
    wrist = scene.gripper - 0.18 * axis
    length = np.sqrt(np.square(wrist - SHOULDER).sum(axis=1))
    rod = RoundedBox(wrist - 0.5 * length[:, None] * axis, 0.5 * length, 0.045, 0.045, axis)
    sleeve = RoundedBox(wrist - 0.66 * length[:, None] * axis, 0.34 * length, 0.075, 0.075, axis)
    return rod, sleeve, RoundedBox(wrist, 0.055, 0.21, 0.05, axis)


def _fingers(scene: Scene) -> list[RoundedBox]:
    """Two bars whose inner sides touch a block between them at `BLOCK_OPENING`."""
    axis = _axis(scene.gripper)
    across = np.column_stack([-axis[:, 1], axis[:, 0]])
    half_width = 0.026
    gap = 2 * BLOCK_HALF * scene.opening[:, None] + half_width
    return [
        RoundedBox(
            scene.gripper - 0.05 * axis + side * gap * across, 0.115, half_width, half_width, axis
        )
        for side in (-1, 1)
    ]


def _block_shape(scene: Scene, offset: np.ndarray, half: Scalar) -> RoundedBox:
    """The block faces the arm, so that the fingers touch its sides flat."""
    return RoundedBox(scene.block + offset, half, half, 0.25 * half, _axis(scene.block))


def _axis(place: np.ndarray) -> np.ndarray:
    way = place - SHOULDER
    direction: np.ndarray = way / np.sqrt(np.square(way).sum(axis=1, keepdims=True))
    return direction


def _narrowed(bar: RoundedBox, share: float) -> RoundedBox:
    """The same bar with less width, and less length by as much, for its bright middle."""
    half_width = share * bar.half_width
    half_length = bar.half_length - np.minimum(bar.half_width - half_width, 0.6 * bar.half_length)
    corner = np.minimum(half_length, np.minimum(half_width, bar.corner))
    return replace(bar, half_length=half_length, half_width=half_width, corner=corner)


@lru_cache(maxsize=8)
def _table(size: int) -> np.ndarray:
    """Wooden boards with a faint grain, darker towards the corners."""
    centers = pixel_centers(size)
    x, y = centers[None, :], -centers[:, None]
    place = (x + 1) * 2.5
    tone = np.array([0.0, 0.7, 0.25, 0.95, 0.4], dtype=np.float32)[place.astype(int)]
    coarse = np.sin(38 * x + 9 * tone + 1.3 * np.sin(2.1 * y + 5 * tone))
    fine = np.sin(91 * x + 2.0 * np.sin(1.7 * y + 11 * tone))
    # A seam is thinner than a pixel of a small image, and then as much fainter.
    seam_width = max(0.012, 2 / size)
    seam = np.maximum(1 - np.abs(place - np.round(place)) / 2.5 * 2 / seam_width, 0)
    seam *= 0.012 / seam_width
    shade = 1.0 - 0.035 * tone + 0.010 * coarse + 0.006 * fine - 0.16 * seam
    shade = shade - 0.06 * (x * x + y * y)
    table: np.ndarray = shade[:, :, None] * np.array(WOOD, dtype=np.float32)
    return table


def _mix(color: Color, other: Color, share: float) -> Color:
    red, green, blue = (a + share * (b - a) for a, b in zip(color, other, strict=True))
    return red, green, blue
