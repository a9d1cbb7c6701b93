"""The data files that hold chosen episodes: their columns as arrays, read and checked."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from manyhands.data.episodes import Source
from manyhands.errors import DatasetError
from manyhands.lerobot_format import names
from manyhands.lerobot_format.dataset.info import Feature
from manyhands.lerobot_format.dataset.tables import is_list, read_columns, read_footer

# LeRobot's items have one float, one integer and one boolean type, whatever the table has.
_MEMORY_TYPES = {"f": np.float32, "i": np.int64, "u": np.int64, "b": np.bool_}


MANY_FRAMES = 10_000_000
"""If metadata declares more frames in one file, check that before allocating arrays."""


class DataFile(NamedTuple):
    """A data file with chosen episodes."""

    path: Path
    frames: np.ndarray  # Numbers of the frames it must hold, row by row


def chosen_files(source: Source) -> Iterator[DataFile]:
    """The files that hold chosen episodes, with all that they hold."""
    episodes, files = source.meta.episodes, source.meta.episodes.data_files
    held = files.members(np.arange(len(episodes)))
    for file in files.members(source.selection.episodes):
        ranges = zip(episodes.from_index[held[file]], episodes.to_index[held[file]], strict=True)
        frames = np.concatenate([np.arange(*pair) for pair in ranges])
        yield DataFile(source.root / files.paths[file], frames)


def check_frame_counts(source: Source) -> None:
    """Reject metadata that declares more frames than its data files have, before counting them."""
    files, lengths = source.meta.episodes.data_files, source.meta.episodes.lengths
    claimed = np.zeros(len(files.paths), np.int64)
    np.add.at(claimed, files.of_episode, lengths)
    for file in np.flatnonzero(claimed > MANY_FRAMES):
        path = source.root / files.paths[file]
        check_count(path, read_footer(path).num_rows, int(claimed[file]))


def column_names(file: DataFile) -> list[str]:
    """The columns a file has."""
    columns: list[str] = read_footer(file.path).schema.to_arrow_schema().names
    return columns


def read_frames(file: DataFile, keys: list[str]) -> pa.Table:
    """Columns of a file, which must number its frames as the metadata does."""
    # Before reading: rows that repeat a value take no space in a file, and much in memory.
    check_count(file.path, read_footer(file.path).num_rows, len(file.frames))
    table = read_columns(file.path, keys)
    check_numbering(file, table)
    return table


def check_numbering(file: DataFile, table: pa.Table) -> None:
    """Reject a file whose rows are not the frames it must contain."""
    expected = file.frames
    check_count(file.path, table.num_rows, len(expected))
    if names.INDEX not in table.column_names:
        return
    numbers = table[names.INDEX].to_numpy()
    if numbers.dtype.kind not in "iuf" or not np.array_equal(numbers, expected):
        raise DatasetError(
            f"{file.path}: column {names.INDEX} must count from {expected[0]} to "
            f"{expected[-1]}, according to the metadata"
        )


def check_count(path: Path, found: int, expected: int) -> None:
    """Reject a file with another number of rows than the metadata declares."""
    if found != expected:
        raise DatasetError(
            f"{path} has {found} frames, but the metadata declares {expected}. Copy or "
            "download the dataset again"
        )


def memory_type(feature: Feature) -> np.dtype:
    """The type a feature's numbers have in a sample."""
    return np.dtype(_MEMORY_TYPES[np.dtype(feature.dtype).kind])


def value_shape(feature: Feature) -> tuple[int, ...]:
    """The shape a feature's numbers have in a sample, where scalars have none."""
    return () if feature.shape == (1,) else feature.shape


def numbers_of(column: pa.ChunkedArray, feature: Feature) -> np.ndarray:
    """A column as one array, however deep its lists; raises ValueError if it does not fit."""
    values = column
    if isinstance(column.type, pa.BaseExtensionType):
        # Nested lists come marked as arrays once the `datasets` library has been imported.
        values = column.cast(column.type.storage_type)
    while is_list(values.type):
        values = pc.list_flatten(values)
    if column.null_count or values.null_count:
        raise ValueError("it has null values; every frame needs a value")
    try:
        return _cast(values.to_numpy(), feature).reshape(len(column), *value_shape(feature))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"it does not match {feature.dtype} {list(feature.shape)} declared in "
            f"{names.INFO_FILE}: {error}"
        ) from None


def _cast(values: np.ndarray, feature: Feature) -> np.ndarray:
    """Numbers in the type they have in a sample; integers must be exact."""
    # Too large for a float becomes Inf, which the check of values finds.
    with np.errstate(invalid="ignore", over="ignore"):
        cast: np.ndarray = values.astype(memory_type(feature), copy=False)
    if cast.dtype.kind != "f" and values.dtype.kind == "f" and (cast != values).any():
        raise ValueError(f"{values[cast != values][0]} is not an integer")
    return cast
