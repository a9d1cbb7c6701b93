"""What every import format offers: columns, and episodes as iterators of frames."""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from manyhands.lerobot_format import names

Frame = Mapping[str, Any]  # Values by column: arrays, or texts

_CHANNELS = (1, 3, 4)
_LEAST_SIDE = 8  # Shorter sides belong to matrices of numbers


@dataclass(frozen=True)
class Column:
    """Values of one kind, one per frame."""

    dtype: str  # Name of numpy's type; `string` for texts
    shape: tuple[int, ...]  # Of one frame
    pixel_scale: float = 1.0  # Factor from stored pixels to 0..255

    @property
    def is_text(self) -> bool:
        """Whether the values are texts."""
        return self.dtype == names.STRING

    @property
    def is_image(self) -> bool:
        """Whether the values are color or gray images."""
        if len(self.shape) != 3 or self.dtype not in ("uint8", "float32", "float64"):
            return False
        return self._is_image(self.shape) or self.channels_first

    @property
    def channels_first(self) -> bool:
        """Whether an image's channels come before its height."""
        return not self._is_image(self.shape) and self._is_image((*self.shape[1:], self.shape[0]))

    @property
    def image_shape(self) -> tuple[int, ...]:
        """Height, width and channels of an image."""
        return (*self.shape[1:], self.shape[0]) if self.channels_first else self.shape

    def __str__(self) -> str:
        sizes = "x".join(map(str, self.shape)) or "scalar"
        return "text" if self.is_text else f"{sizes} {self.dtype}"

    @staticmethod
    def _is_image(shape: tuple[int, ...]) -> bool:
        return len(shape) == 3 and shape[2] in _CHANNELS and min(shape[:2]) >= _LEAST_SIDE


class ImportSource(Protocol):
    """A dataset of another format; nothing of it is read before it is needed."""

    format: str
    path: Path
    files: list[Path]  # Files whose change makes it another dataset
    columns: dict[str, Column]
    num_episodes: int
    fps: float | None  # None if the format does not record it
    notes: list[str]  # What a user should know before the import

    def frames(self, episode: int, columns: Collection[str]) -> Iterator[Frame]:
        """Yield the frames of an episode, with the given columns."""
        ...


def described(array: Any, first: Any) -> Column:
    """The column of an array (frames, ...), given its first value."""
    if isinstance(first, str | bytes) and len(array.shape) == 1:
        return Column(names.STRING, ())
    first = np.asarray(first)
    column = Column(str(array.dtype), tuple(array.shape[1:]))
    if column.is_image and column.dtype != "uint8" and first.size and first.max() <= 1:
        return Column(column.dtype, column.shape, pixel_scale=255.0)
    return column


def as_text(value: Any) -> str:
    """A text as files store it: bytes, an array of one, or a string."""
    if isinstance(value, np.ndarray):
        value = value.reshape(-1)[0] if value.size else ""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def listed(columns: Mapping[str, Column]) -> str:
    """All columns in one sentence."""
    return ", ".join(f"{name} ({column})" for name, column in columns.items())


def natural_order(text: str) -> list[tuple[int, str]]:
    """A sort key that puts episode_2 before episode_10."""
    parts = re.split(r"(\d+)", text)
    return [(int(part), "") if part.isdigit() else (-1, part) for part in parts]
