"""The table of frames: columns of the chosen episodes, read from the data files and checked."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from manyhands.data.selection import Source
from manyhands.errors import DatasetError
from manyhands.lerobot_format import names
from manyhands.lerobot_format.dataset_info import Feature
from manyhands.lerobot_format.tables import read_columns, read_footer

# LeRobot's items know one float, one integer and one truth type, whatever the table holds.
_MEMORY_TYPES = {"f": np.float32, "i": np.int64, "u": np.int64, "b": np.bool_}


@dataclass(frozen=True)
class FrameTable:
    """Columns that are held in memory; rows are those of the selection."""

    numbers: dict[str, np.ndarray]
    objects: dict[str, pa.ChunkedArray]


def load_frames(source: Source, keys: Sequence[str]) -> FrameTable:
    """Read the columns `keys`; pictures are only looked for, not read."""
    features, num_rows = source.meta.info.features, source.selection.num_rows
    in_memory = [key for key in keys if not features[key].is_camera]
    numbers = {
        key: np.empty((num_rows, *_value_shape(features[key])), _memory_type(features[key]))
        for key in in_memory
        if features[key].is_number
    }
    objects: dict[str, list[pa.ChunkedArray]] = {
        key: [] for key in in_memory if not features[key].is_number
    }
    places = []
    for part in _chosen_parts(source):
        read_footer(part.path, keys)
        table = read_columns(part.path, in_memory)
        _check_indices(part.path, table, part.indices)
        for key, values in numbers.items():
            where = f"{part.path}, {key}"
            values[part.rows] = _numbers(table[key], features[key], where)[part.is_chosen]
        for key, found in objects.items():
            found.append(table[key].filter(pa.array(part.is_chosen)))
        places.append(part.rows)
    return FrameTable(numbers, _in_order(objects, np.concatenate(places)))


class _Part(NamedTuple):
    """A file with chosen episodes."""

    path: Path
    indices: np.ndarray
    """Frame indices it must hold."""
    is_chosen: np.ndarray
    """Which of its frames belong to chosen episodes."""
    rows: np.ndarray
    """The rows those fill."""


def _chosen_parts(source: Source) -> Iterator[_Part]:
    episodes, selection = source.meta.episodes, source.selection
    files = episodes.data_files
    chosen = np.zeros(len(episodes), dtype=bool)
    chosen[selection.episodes] = True
    for file in np.unique(files.of_episode[selection.episodes]):
        members = np.flatnonzero(files.of_episode == file)
        yield _Part(
            path=source.root / files.paths[file],
            indices=_ranges(episodes.from_index[members], episodes.to_index[members]),
            is_chosen=np.repeat(chosen[members], episodes.lengths[members]),
            rows=_ranges(*selection.bounds[files.of_episode[selection.episodes] == file].T),
        )


def _ranges(starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    return np.concatenate([np.arange(*pair) for pair in zip(starts, ends, strict=True)])


def _in_order(
    objects: dict[str, list[pa.ChunkedArray]], places: np.ndarray
) -> dict[str, pa.ChunkedArray]:
    order = pa.array(np.argsort(places))
    return {
        key: pa.chunked_array([chunk for part in parts for chunk in part.chunks]).take(order)
        for key, parts in objects.items()
    }


def _check_indices(path: Path, table: pa.Table, expected: np.ndarray) -> None:
    if table.num_rows != len(expected):
        raise DatasetError(
            f"{path} holds {table.num_rows} frames, but {names.EPISODES_FOLDER} says "
            f"{len(expected)}; copy or download the dataset again"
        )
    if not np.array_equal(table[names.INDEX].to_numpy(), expected):
        raise DatasetError(
            f"{path}: the column {names.INDEX} must count from {expected[0]} to {expected[-1]}, "
            f"as {names.EPISODES_FOLDER} says"
        )


def _memory_type(feature: Feature) -> type[np.generic]:
    return _MEMORY_TYPES[np.dtype(feature.dtype).kind]


def _value_shape(feature: Feature) -> tuple[int, ...]:
    return () if feature.shape == (1,) else feature.shape


def _numbers(column: pa.ChunkedArray, feature: Feature, where: str) -> np.ndarray:
    """A column as one array, however deep its lists are nested."""
    values = column
    if isinstance(column.type, pa.BaseExtensionType):
        # Nested lists come marked as arrays once the `datasets` library has been imported.
        values = column.cast(column.type.storage_type)
    while not _is_flat(values.type):
        values = pc.list_flatten(values)
    if column.null_count or values.null_count:
        raise DatasetError(f"{where} has empty entries; every frame needs a value")
    try:
        array: np.ndarray = values.to_numpy().astype(_memory_type(feature), copy=False)
        return array.reshape(len(column), *_value_shape(feature))
    except (TypeError, ValueError) as error:
        raise DatasetError(
            f"{where} does not fit {feature.dtype} {list(feature.shape)}, "
            f"as {names.INFO_FILE} declares it: {error}"
        ) from None


def _is_flat(kind: pa.DataType) -> bool:
    return not (pa.types.is_list(kind) or pa.types.is_large_list(kind)) and not (
        pa.types.is_fixed_size_list(kind)
    )
