"""CSV tables with images: a row per frame, images named in a column or found in folders.

One table for all episodes with a column `episode`, or a folder with a table per episode. Columns
that end in numbers, such as `state_0` and `state_1`, are the entries of a vector.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from manyhands.data.images.image_files import decode_image
from manyhands.data.importing.csv_table import EPISODE_COLUMNS, CsvEpisode, Row, csv_episodes
from manyhands.data.importing.source import Column, Frame, natural_order
from manyhands.errors import DatasetError
from manyhands.lerobot_format import names

FORMAT = "csv"
_TIME_COLUMNS = ("timestamp", "time", "t")
_IMAGE_SUFFIXES = {".png", ".jpg", ".jpeg"}
_ENTRY = re.compile(r"(.+?)[._\[](\d+)\]?")


class CsvEpisodes:
    """Tables, and the images their rows belong to."""

    format = FORMAT

    def __init__(self, path: Path) -> None:
        self.path = path
        self.notes: list[str] = []
        self.files = csv_files(path)
        self._episodes = [each for file in self.files for each in csv_episodes(file)]
        self.num_episodes = len(self._episodes)
        first = self._episodes[0]
        rows = first.rows()
        _, row = next(rows)
        self._vectors = _vectors(row)
        self._named = [name for name, value in row.items() if _is_image(first.file, value)]
        # Folders belong to one episode; a table of several names its images.
        is_alone = len(self._episodes) == len(self.files)
        self._folders = _image_folders(first.file) if is_alone and not self._named else []
        self.columns = self._columns(first, row)
        self.fps: float | None = _rate([row, *(each for _, each in rows)])

    def frames(self, episode: int, columns: Collection[str]) -> Iterator[Frame]:
        """Yield the frames of an episode, with the given columns."""
        place = self._episodes[episode]
        images = {name: self._images(place, name) for name in self._folders if name in columns}
        wanted = [name for name in self.columns if name in columns and name not in images]
        for number, (line, row) in enumerate(place.rows()):
            where = f"{place.file}, line {line}"
            frame = {name: self._value(place.file, where, row, name) for name in wanted}
            yield frame | {name: _read_image(files[number]) for name, files in images.items()}

    def _value(self, file: Path, where: str, row: Row, name: str) -> Any:
        if name in self._named:
            return _read_image(file.parent / row[name])
        if self.columns[name].is_text:
            return row[name]
        try:
            values = [float(row[entry]) for entry in self._vectors[name]]
        except ValueError as error:
            raise DatasetError(f"{where}, {name}: {error}") from None
        return np.array(values, dtype=np.float32).reshape(self.columns[name].shape)

    def _images(self, place: CsvEpisode, camera: str) -> list[Path]:
        files = _image_files(place.file.parent / camera)
        if len(files) != place.num_rows:
            raise DatasetError(
                f"{place.file.parent / camera} has {len(files)} images, but {place.file} has "
                f"{place.num_rows} rows"
            )
        return files

    def _columns(self, first: CsvEpisode, row: Row) -> dict[str, Column]:
        columns: dict[str, Column] = {}
        for name, entries in self._vectors.items():
            if name in self._named:
                shape = _read_image(first.file.parent / row[name]).shape
                columns[name] = Column("uint8", shape)
            elif not all(_is_number(row[entry]) for entry in entries):
                columns[name] = Column(names.STRING, ())
            else:
                columns[name] = Column("float32", (len(entries),) if entries != [name] else ())
        for camera in self._folders:
            shape = _read_image(_image_files(first.file.parent / camera)[0]).shape
            columns[camera] = Column("uint8", shape)
        return columns


def csv_files(path: Path) -> list[Path]:
    """The table at a path, or the tables in a folder, or those one folder below."""
    if path.is_file():
        return [path]
    found = [*path.glob("*.csv")] or [*path.glob("*/*.csv")]
    return sorted(found, key=lambda file: natural_order(str(file.relative_to(path))))


def _vectors(row: Row) -> dict[str, list[str]]:
    """Columns by name: vectors of several entries, and all others."""
    vectors: dict[str, list[str]] = {}
    for name in row:
        match = _ENTRY.fullmatch(name)
        is_entry = match is not None and _is_number(row[name])
        vectors.setdefault(match[1] if match and is_entry else name, []).append(name)
    for entries in vectors.values():
        entries.sort(key=natural_order)
    kept = (*EPISODE_COLUMNS, *_TIME_COLUMNS)
    return {name: entries for name, entries in vectors.items() if name not in kept}


def _rate(rows: Sequence[Row]) -> float | None:
    """Frames per second from the median distance of timestamps in seconds."""
    name = next((each for each in _TIME_COLUMNS if each in rows[0]), None)
    if name is None or len(rows) < 2 or not all(_is_number(row[name]) for row in rows):
        return None
    step = float(np.median(np.diff([float(row[name]) for row in rows])))
    return round(1 / step, 3) if step > 0 else None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _is_image(file: Path, value: str) -> bool:
    return Path(value).suffix.lower() in _IMAGE_SUFFIXES and (file.parent / value).is_file()


def _image_folders(file: Path) -> list[str]:
    folders = sorted(each for each in file.parent.iterdir() if each.is_dir())
    return [folder.name for folder in folders if _image_files(folder)]


def _image_files(folder: Path) -> list[Path]:
    files = folder.iterdir() if folder.is_dir() else ()
    images = [file for file in files if file.suffix.lower() in _IMAGE_SUFFIXES]
    return sorted(images, key=lambda file: natural_order(file.name))


def _read_image(path: Path) -> np.ndarray:
    try:
        return decode_image(path.read_bytes())
    except (OSError, ValueError) as error:
        raise DatasetError(f"{path} cannot be read as an image: {error}") from None
