"""Episodes in HDF5 files, each a group of arrays with one row per frame."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from manyhands.data.images.image_files import decode_image
from manyhands.data.importing.chunked_rows import chunked_rows, joined_frames
from manyhands.data.importing.packages import required
from manyhands.data.importing.source import Column, Frame, described
from manyhands.errors import DatasetError
from manyhands.lerobot_format import names
from manyhands.lerobot_format.dataset.unusable_file import check_file

INSTRUCTION = "language_instruction"  # The column of an episode's text
_IMAGE_STARTS = (b"\xff\xd8\xff", b"\x89PNG")

Instruction = Callable[[Any, Any], str | None]  # From a file and a group in it


@dataclass(frozen=True)
class Hdf5Layout:
    """Where a format keeps its episodes and what it calls them."""

    format: str
    actions: str  # The array whose length is that of the episode
    instruction: Instruction


@contextmanager
def opened_hdf5(path: Path) -> Iterator[Any]:
    """An open HDF5 file; its errors name it."""
    h5py = required("h5py", "reading HDF5 files")
    check_file(path)
    try:
        with h5py.File(path, "r") as file:
            yield file
    except (OSError, RuntimeError, KeyError) as error:
        raise DatasetError(
            f"{path} cannot be read as HDF5: {error}. Copy or download the file again"
        ) from None


class Hdf5Episodes:
    """An import source of HDF5 groups; every read opens the file anew."""

    def __init__(
        self, path: Path, layout: Hdf5Layout, groups: Sequence[tuple[Path, str]], fps: float | None
    ) -> None:
        self.path = path
        self.format = layout.format
        self.fps = fps
        self.files = list(dict.fromkeys(file for file, _ in groups))
        self.num_episodes = len(groups)
        self.notes: list[str] = []
        self._layout = layout
        self._groups = groups
        self._constant: set[str] = set()  # Columns of one text per episode
        self._encoded: set[str] = set()  # Columns of images stored as JPEG or PNG files
        self.columns = self._described(*groups[0])

    def frames(self, episode: int, columns: Collection[str]) -> Iterator[Frame]:
        """Yield the frames of an episode, with the given columns."""
        path, name = self._groups[episode]
        with opened_hdf5(path) as file:
            group = file[name]
            self._check(path, group, columns)
            length = len(group[self._layout.actions])
            rows = {
                column: self._rows(file, group, column, length)
                for column in self.columns
                if column in columns
            }
            yield from joined_frames(rows)

    def _rows(self, file: Any, group: Any, column: str, length: int) -> Iterator[Any]:
        if column in self._constant:
            text = self._layout.instruction(file, group)
            return iter([text or ""] * length)
        rows = chunked_rows(group[column], 0, length)
        return map(decoded, rows) if column in self._encoded else rows

    def _check(self, path: Path, group: Any, columns: Collection[str]) -> None:
        length = len(group[self._layout.actions])
        for column in columns:
            if column in self._constant:
                continue
            if column not in group:
                raise DatasetError(f"{path}, {group.name}: {column} is missing, unlike before")
            if len(group[column]) != length:
                raise DatasetError(
                    f"{path}, {group.name}: {column} has {len(group[column])} rows, but "
                    f"{self._layout.actions} has {length}"
                )

    def _described(self, path: Path, name: str) -> dict[str, Column]:
        with opened_hdf5(path) as file:
            group = file[name]
            if self._layout.actions not in group or not len(group[self._layout.actions]):
                raise DatasetError(f"{path}, {group.name}: no {self._layout.actions}")
            length = len(group[self._layout.actions])
            columns = {
                column: self._column(column, array)
                for column, array in arrays_in(group).items()
                if array.shape[0] == length
            }
            if self._layout.instruction(file, group) is not None:
                columns[INSTRUCTION] = Column(names.STRING, ())
                self._constant.add(INSTRUCTION)
        return columns

    def _column(self, name: str, array: Any) -> Column:
        first = array[0]
        if _as_bytes(first).startswith(_IMAGE_STARTS) and array.ndim <= 2:
            self._encoded.add(name)
            return Column("uint8", decoded(first).shape)
        return described(array, first)


def arrays_in(group: Any) -> dict[str, Any]:
    """All arrays below a group by path, scalars excluded."""
    found: dict[str, Any] = {}

    def visit(name: str, item: Any) -> None:
        if getattr(item, "shape", ()):
            found[name] = item

    group.visititems(visit)
    return found


def decoded(value: Any) -> np.ndarray:
    """The image in a row of bytes, which may be padded with zeros to the longest row."""
    try:
        return decode_image(_as_bytes(value))
    except ValueError as error:
        raise DatasetError(f"an image cannot be decoded: {error}") from None


def _as_bytes(value: Any) -> bytes:
    if isinstance(value, np.ndarray):
        return value.tobytes() if value.dtype == np.uint8 else b""
    if isinstance(value, np.void):
        return value.tobytes()
    return value if isinstance(value, bytes) else b""
