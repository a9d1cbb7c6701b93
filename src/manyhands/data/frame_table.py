"""The table of frames: one file per column, built once and shared by all processes.

A table has a row for every frame of the dataset, filled for the files with chosen episodes.
It is published atomically, under a name that changes whenever one of those files does.
"""

import json
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO
from zlib import crc32

import numpy as np
import pyarrow as pa

from manyhands.atomic import atomic_directory
from manyhands.data.columns import MappedArray
from manyhands.data.data_files import (
    DataFile,
    check_count,
    check_frame_counts,
    chosen_files,
    column_names,
    memory_type,
    numbers_of,
    read_frames,
    value_shape,
)
from manyhands.data.derived_columns import derived_column
from manyhands.data.episodes import Source
from manyhands.data.locks import locked, read_stamp
from manyhands.errors import DatasetError
from manyhands.lerobot_format import names
from manyhands.lerobot_format.dataset.info import Feature
from manyhands.lerobot_format.dataset.tables import read_footer
from manyhands.os_errors import reason_of, writing_remedy

TABLES_FOLDER = "tables"
MANIFEST = "table.json"
OBJECTS = "objects.arrow"
_FORMAT = 1
_BLOCK_BYTES = 1 << 22


@dataclass(frozen=True)
class FrameTable:
    """Columns by feature; an unreadable one raises on access."""

    folder: Path
    numbers: dict[str, MappedArray]
    objects: list[str]
    faults: dict[str, str]

    def check(self, key: str) -> None:
        """Reject a feature that could not be read."""
        if key in self.faults:
            raise DatasetError(self.faults[key])


def open_table(source: Source, home: Path) -> FrameTable:
    """The table of the files that hold chosen episodes; built if it is not there or damaged."""
    check_frame_counts(source)
    folder = home / TABLES_FOLDER / _key(source)
    table = _read(folder)
    if table is not None:
        return table
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with locked(folder.with_suffix(".lock")):
            # Another process may have built it while this one waited.
            if _read(folder) is None:
                _build(source, folder)
    except OSError as error:
        raise DatasetError(
            f"cannot cache the columns of {source.root} in {home}: {reason_of(error)}. "
            + writing_remedy(error, "Set --cache.folder=DIR, or MANYHANDS_HOME=DIR for all runs")
        ) from None
    table = _read(folder)
    assert table is not None, f"{folder} was just built"
    return table


def _key(source: Source) -> str:
    """A name that no other content of the files has."""
    digest = blake2b(digest_size=16)
    digest.update(f"{_FORMAT}\n{source.root.resolve()}\n".encode())
    stored = {key: (each.dtype, each.shape) for key, each in _stored_features(source).items()}
    digest.update(json.dumps(stored).encode())
    for file in chosen_files(source):
        digest.update(f"{file.path}\n{read_stamp(file.path)}\n".encode())
        digest.update(file.frames.tobytes())
    return digest.hexdigest()


def _stored_features(source: Source) -> dict[str, Feature]:
    features = source.meta.info.features
    return {key: feature for key, feature in features.items() if feature.dtype != names.VIDEO}


def _read(folder: Path) -> FrameTable | None:
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        for name, checksum in manifest["checksums"].items():
            if _checksum(folder / name) != checksum:
                return None
    except (OSError, ValueError, KeyError):
        return None
    numbers = {
        key: MappedArray(folder / entry["file"], tuple(entry["shape"]), np.dtype(entry["dtype"]))
        for key, entry in manifest["numbers"].items()
    }
    return FrameTable(folder, numbers, manifest["objects"], manifest["faults"])


def _checksum(path: Path) -> int:
    checksum = 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            checksum = crc32(block, checksum)
    return checksum


def _build(source: Source, folder: Path) -> None:
    with atomic_directory(folder) as scratch:
        builder = _Builder(source, scratch)
        for file in chosen_files(source):
            builder.add(file)
        manifest = builder.finished()
        (scratch / MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")


class _Builder:
    """A table being built, data file by data file."""

    def __init__(self, source: Source, folder: Path) -> None:
        self._folder = folder
        self._source = source
        self._features = _stored_features(source)
        self._num_frames = int(source.meta.episodes.to_index[-1])
        self._faults: dict[str, str] = {}
        numbers = [key for key, feature in self._features.items() if feature.is_number]
        self._columns: dict[str, BinaryIO] = {
            key: (folder / f"{number}.bin").open("wb") for number, key in enumerate(numbers)
        }
        self._objects: list[tuple[np.ndarray, pa.Table]] = []

    def add(self, file: DataFile) -> None:
        """Copy the content of a data file except images, which are only checked for presence."""
        present = column_names(file)
        for key in self._features.keys() - present:
            self._derive(file, key)
        for key in [key for key in self._features if present.count(key) > 1]:
            self._faults.setdefault(key, f"{file.path} has several columns {key}")
        readable = {key: each for key, each in self._features.items() if key in present}
        table = read_frames(file, [key for key in readable if not readable[key].is_camera])
        objects = [key for key in table.column_names if not readable[key].is_number]
        for key in table.column_names:
            if key not in objects:
                self._add_numbers(file, key, table[key])
        self._objects.append((file.frames, table.select(objects)))

    def _derive(self, file: DataFile, key: str) -> None:
        """Fill in a missing column from the metadata, where that is possible."""
        check_count(file.path, read_footer(file.path).num_rows, len(file.frames))
        values = derived_column(self._source, key, file.frames)
        if values is None:
            self._faults.setdefault(key, f"{file.path} has no column {key}")
            return
        self._write(file, key, values.astype(memory_type(self._features[key])))

    def _add_numbers(self, file: DataFile, key: str, column: pa.ChunkedArray) -> None:
        try:
            values = numbers_of(column, self._features[key])
        except (ValueError, pa.ArrowException) as error:
            self._faults.setdefault(key, f"{file.path}, {key}: {error}")
            return
        self._write(file, key, values)

    def _write(self, file: DataFile, key: str, values: np.ndarray) -> None:
        if not len(values):
            return
        # Written, not mapped: a full disk is then an error and not a crash.
        borders = np.flatnonzero(np.diff(file.frames) != 1) + 1
        runs = zip(np.split(file.frames, borders), np.split(values, borders), strict=True)
        for frames, part in runs:
            self._columns[key].seek(int(frames[0]) * part[0].nbytes)
            self._columns[key].write(np.ascontiguousarray(part).data)

    def finished(self) -> dict[str, Any]:
        numbers = {}
        for key, stream in self._columns.items():
            feature = self._features[key]
            shape = (self._num_frames, *value_shape(feature))
            stream.truncate(int(np.prod(shape)) * memory_type(feature).itemsize)
            stream.close()
            entry = {"file": Path(stream.name).name, "shape": shape}
            numbers[key] = entry | {"dtype": memory_type(feature).str}
        objects = self._write_objects()
        files = [path for path in self._folder.iterdir() if path.is_file()]
        return {
            "checksums": {path.name: _checksum(path) for path in sorted(files)},
            "numbers": numbers,
            "objects": objects,
            "faults": self._faults,
        }

    def _write_objects(self) -> list[str]:
        """Strings and lists as one table with a row per frame; return their keys."""
        keys = [
            key
            for key, feature in self._features.items()
            if not (feature.is_number or feature.is_camera or key in self._faults)
        ]
        if not keys:
            return []
        place = np.full(self._num_frames, -1)
        frames = np.concatenate([frames for frames, _ in self._objects])
        place[frames] = np.arange(len(frames))
        parts = [table.select(keys) for _, table in self._objects]
        try:
            whole = pa.concat_tables(parts, promote_options="permissive")
        except pa.ArrowException as error:
            self._faults |= dict.fromkeys(
                keys, f"{self._source.root}, columns {', '.join(keys)}: {error}"
            )
            return []
        lines = whole.take(pa.array(place, mask=place < 0))
        with pa.ipc.new_file(str(self._folder / OBJECTS), lines.schema) as file:
            file.write_table(lines)
        return keys
