"""Encoded images inside the data files, read a row group at a time when they are needed."""

from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from manyhands.data.episodes import Source
from manyhands.errors import DatasetError
from manyhands.lerobot_format.dataset.tables import read_footer, read_row_group

_MAX_HELD_BYTES = 256 * 1024**2


class EmbeddedImageReader:
    """Binary columns of the data files; caches the row groups read last."""

    def __init__(self, source: Source) -> None:
        episodes = source.meta.episodes
        self._paths = [source.root / path for path in episodes.data_files.paths]
        self._episodes = episodes
        self._files = episodes.data_files.of_episode
        # What to add to a frame's number in the dataset to get its row in the file.
        self._shifts = episodes.first_rows_in_file() - episodes.from_index
        self._footers: dict[int, tuple[pq.FileMetaData, np.ndarray]] = {}
        self._held: OrderedDict[tuple[str, int, int], pa.ChunkedArray] = OrderedDict()
        self._held_bytes = 0

    def layout(self) -> bytes:
        """File and position of every episode's rows."""
        parts = (self._episodes.from_index, self._files, self._shifts)
        return b"".join(part.tobytes() for part in parts)

    def read(self, key: str, frames: np.ndarray) -> Iterator[tuple[Path, bytes]]:
        """File and stored bytes of each frame; quickest when those of one file stand together."""
        places = self._episodes.places(frames)
        for file, row in zip(self._files[places], frames + self._shifts[places], strict=True):
            group_ends = self._footer(int(file))[1]
            group = int(np.searchsorted(group_ends, row, side="right"))
            start = int(group_ends[group - 1]) if group else 0
            encoded = image_bytes(self._group(key, int(file), group)[int(row) - start].as_py())
            if encoded is None:
                raise DatasetError(f"{self._paths[file]}, {key}: row {row} has no image")
            yield self._paths[file], encoded

    def _footer(self, file: int) -> tuple[pq.FileMetaData, np.ndarray]:
        if file not in self._footers:
            footer = read_footer(self._paths[file])
            sizes = [footer.row_group(index).num_rows for index in range(footer.num_row_groups)]
            self._footers[file] = (footer, np.cumsum(sizes))
        return self._footers[file]

    def _group(self, key: str, file: int, group: int) -> pa.ChunkedArray:
        name = (key, file, group)
        if name not in self._held:
            values = read_row_group(self._paths[file], self._footer(file)[0], group, key)
            self._held[name] = values
            self._held_bytes += values.nbytes
        self._held.move_to_end(name)
        while self._held_bytes > _MAX_HELD_BYTES and len(self._held) > 1:
            self._held_bytes -= self._held.popitem(last=False)[1].nbytes
        return self._held[name]

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_footers": {}, "_held": OrderedDict(), "_held_bytes": 0}


def image_bytes(value: object) -> bytes | None:
    """The encoded image in an entry of a table, with or without its name beside it."""
    encoded = value.get("bytes") if isinstance(value, dict) else value
    return encoded if isinstance(encoded, bytes) else None
