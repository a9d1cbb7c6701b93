"""Rows of data files by episode, each column laid out as LeRobot's recorder stores it."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from manyhands.data.episodes import Source
from manyhands.errors import DatasetError
from manyhands.lerobot_format import names
from manyhands.lerobot_format.dataset.data_files import image_array, nested_array
from manyhands.lerobot_format.dataset.features import Feature
from manyhands.lerobot_format.dataset.tables import is_list, read_footer, read_row_groups

Columns = dict[str, pa.Array]  # Arrow columns by feature


class EpisodeRows:
    """The rows of one dataset; caches the row groups read last."""

    def __init__(self, source: Source, features: dict[str, Feature]) -> None:
        self.undeclared: set[str] = set()  # Columns found so far that belong to no feature
        self._source = source
        self._features = {
            key: feature for key, feature in features.items() if feature.dtype != names.VIDEO
        }
        self._first_rows = source.meta.episodes.first_rows_in_file()
        self._path: Path | None = None
        self._footer: pq.FileMetaData = None
        self._group_ends = np.zeros(0, np.int64)
        self._groups = range(0)
        self._held = pa.table({})

    def read(self, episode: int) -> Columns:
        """The columns of an episode."""
        table = self._stored(episode)
        assert self._path is not None
        columns: Columns = {}
        for key, feature in self._features.items():
            try:
                columns[key] = laid_out(table[key].combine_chunks(), feature)
            except (ValueError, pa.ArrowException) as error:
                raise DatasetError(
                    f"{self._path}, {key}, episode {episode}: {error}. Exclude it: "
                    f"--exclude_episodes=[{episode}], or copy or download the dataset again"
                ) from None
        return columns

    def _stored(self, episode: int) -> pa.Table:
        episodes = self._source.meta.episodes
        files = episodes.data_files
        self._open(self._source.root / files.paths[int(files.of_episode[episode])])
        first, length = int(self._first_rows[episode]), int(episodes.lengths[episode])
        begin = int(np.searchsorted(self._group_ends, first, side="right"))
        end = int(np.searchsorted(self._group_ends, first + length - 1, side="right")) + 1
        groups = range(begin, min(end, len(self._group_ends)))
        if groups != self._groups:
            assert self._path is not None
            self._held = read_row_groups(self._path, self._footer, groups, list(self._features))
            self._groups = groups
        start_of_groups = int(self._group_ends[begin - 1]) if begin else 0
        rows = self._held.slice(first - start_of_groups, length)
        expected = np.arange(length) + episodes.from_index[episode]
        if not np.array_equal(rows[names.INDEX].to_numpy(), expected):
            raise DatasetError(
                f"{self._path}: column {names.INDEX} must count from {expected[0]} to "
                f"{expected[-1]} in episode {episode}, according to the metadata"
            )
        return rows

    def _open(self, path: Path) -> None:
        if path == self._path:
            return
        self._footer = read_footer(path, list(self._features))
        self.undeclared |= {*self._footer.schema.to_arrow_schema().names} - {*self._features}
        sizes = [
            self._footer.row_group(group).num_rows for group in range(self._footer.num_row_groups)
        ]
        self._path, self._groups = path, range(0)
        self._group_ends = np.cumsum(sizes, dtype=np.int64)


def laid_out(column: pa.Array, feature: Feature) -> pa.Array:
    """A column in the recorder's layout; raises ValueError if it does not match its feature."""
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.storage
    if feature.dtype == names.LANGUAGE:
        return column
    if feature.dtype == names.IMAGE:
        return _pictures(column)
    is_text = feature.dtype == names.STRING
    kind = pa.string() if is_text else pa.from_numpy_dtype(np.dtype(feature.dtype))
    flat = _flat(column, feature.shape).cast(kind)
    if flat.null_count and not is_text:
        raise ValueError("it has null values; every frame needs a value")
    return nested_array(flat, feature.shape)


def _flat(column: pa.Array, shape: tuple[int, ...]) -> pa.Array:
    """All numbers or strings of a column, whose lists must have the lengths of the shape."""
    flat = column
    for size in shape:
        # A scalar may be stored without the list that its shape would make of it.
        if not is_list(flat.type):
            break
        if pc.any(pc.not_equal(pc.list_value_length(flat), size)).as_py():
            raise ValueError(f"its lists do not match its shape {list(shape)}")
        flat = pc.list_flatten(flat)
    if is_list(flat.type) or len(flat) != len(column) * int(np.prod(shape)):
        raise ValueError(f"it is stored as {column.type}, which does not match {list(shape)}")
    return flat


def _pictures(column: pa.Array) -> pa.Array:
    parts = {field.name for field in column.type} if pa.types.is_struct(column.type) else set()
    files = pc.struct_field(column, "bytes") if "bytes" in parts else column
    if not (pa.types.is_binary(files.type) or pa.types.is_large_binary(files.type)):
        raise ValueError(f"it is stored as {column.type}, which cannot hold images")
    if files.null_count:
        raise ValueError("it has frames without an image")
    paths = pc.struct_field(column, "path").cast(pa.string()) if "path" in parts else None
    return image_array(files.cast(pa.binary()), paths)
