"""`meta/episodes`: which rows and which stretch of which video belong to each episode."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from manyhands.errors import DatasetError
from manyhands.lerobot_format import names
from manyhands.lerobot_format.dataset_info import DatasetInfo
from manyhands.lerobot_format.tables import read_columns, write_table
from manyhands.types import Stats


@dataclass(frozen=True)
class FileColumn:
    """Which of a set of files each episode lies in."""

    paths: tuple[str, ...]
    """Files inside the dataset folder, without repetition."""
    of_episode: np.ndarray
    """Position in `paths` by episode."""


@dataclass(frozen=True)
class EpisodeTable:
    """All episodes of a dataset, one array entry each."""

    from_index: np.ndarray
    to_index: np.ndarray
    """Rows [from_index, to_index) of the dataset's frames."""
    tasks: list[list[str]]
    data_files: FileColumn
    video_files: dict[str, FileColumn]
    """Files by camera."""
    video_starts_s: dict[str, np.ndarray]
    """When an episode begins inside its video file, by camera."""

    def __len__(self) -> int:
        return len(self.from_index)

    @property
    def lengths(self) -> np.ndarray:
        """Frames of each episode."""
        lengths: np.ndarray = self.to_index - self.from_index
        return lengths

    def places(self, frames: np.ndarray) -> np.ndarray:
        """For each frame of the dataset, the number of its episode."""
        return np.searchsorted(self.to_index, frames, side="right")

    def first_rows_in_file(self) -> np.ndarray:
        """Where each episode begins in its data file, which holds its episodes in order."""
        files = self.data_files.of_episode
        order = np.argsort(files, kind="stable")
        ends = np.cumsum(self.lengths[order])
        starts = ends - self.lengths[order]
        _, first_of_file = np.unique(files[order], return_index=True)
        first_rows: np.ndarray = np.empty_like(starts)
        first_rows[order] = starts - starts[first_of_file][files[order]]
        return first_rows


@dataclass(frozen=True)
class Placement:
    """Where one episode's clip of one camera went."""

    chunk_index: int
    file_index: int
    from_timestamp: float
    to_timestamp: float


@dataclass(frozen=True)
class EpisodeRecord:
    """One episode as a writer knows it."""

    tasks: list[str]
    from_index: int
    to_index: int
    data_file: tuple[int, int]
    """Chunk and file number of its rows."""
    stats: Stats
    videos: dict[str, Placement] = field(default_factory=dict)


def read_episodes(root: Path, info: DatasetInfo) -> EpisodeTable:
    """The episodes of the dataset in a folder, checked to number its frames without gaps."""
    folder = root / names.EPISODES_FOLDER
    files = sorted(folder.glob("*/*.parquet"))
    if not files:
        raise DatasetError(f"{folder} holds no episodes; copy or download the dataset again")
    tables = [read_columns(file, _wanted_columns(info)) for file in files]
    try:
        # Files written by different tools may differ in the width of their integers.
        table = pa.concat_tables(tables, promote_options="permissive")
        table = table.sort_by(names.EPISODE_INDEX)
        episodes = _parse_episodes(table, info)
        _check_numbering(episodes, table[names.EPISODE_INDEX].to_numpy(), info)
    except (pa.ArrowException, ValueError) as error:
        raise DatasetError(f"{folder}: {error}") from None
    return episodes


def write_episodes(root: Path, records: Sequence[EpisodeRecord]) -> None:
    """Write all episodes with their statistics as the one file of `meta/episodes`."""
    rows = [_row(number, record) for number, record in enumerate(records)]
    columns = {key: _column([row[key] for row in rows]) for key in rows[0]}
    file = names.EPISODES_PATH.format(chunk_index=0, file_index=0)
    write_table(root / file, pa.table(columns))


def _video_column(key: str, name: str) -> str:
    return f"videos/{key}/{name}"


def _wanted_columns(info: DatasetInfo) -> list[str]:
    per_video = ("chunk_index", "file_index", "from_timestamp")
    return [
        names.EPISODE_INDEX,
        "tasks",
        "data/chunk_index",
        "data/file_index",
        "dataset_from_index",
        "dataset_to_index",
        *(_video_column(key, name) for key in info.video_keys for name in per_video),
    ]


def _parse_episodes(table: pa.Table, info: DatasetInfo) -> EpisodeTable:
    def integers(name: str) -> np.ndarray:
        return _numbers(table, name).astype(np.int64)

    def files(prefix: str, locate: Callable[[int, int], str]) -> FileColumn:
        pairs = np.stack([integers(f"{prefix}/{part}_index") for part in ("chunk", "file")])
        distinct, of_episode = np.unique(pairs, axis=1, return_inverse=True)
        paths = tuple(locate(chunk, file) for chunk, file in distinct.T.tolist())
        return FileColumn(paths, of_episode.reshape(-1))

    def video_locator(key: str) -> Callable[[int, int], str]:
        return lambda chunk, file: info.video_file(key, chunk, file)

    return EpisodeTable(
        from_index=integers("dataset_from_index"),
        to_index=integers("dataset_to_index"),
        tasks=table["tasks"].to_pylist(),
        data_files=files("data", info.data_file),
        video_files={key: files(f"videos/{key}", video_locator(key)) for key in info.video_keys},
        video_starts_s={
            key: _numbers(table, _video_column(key, "from_timestamp")).astype(np.float64)
            for key in info.video_keys
        },
    )


def _numbers(table: pa.Table, name: str) -> np.ndarray:
    column = table[name]
    values: np.ndarray = column.to_numpy()
    if column.null_count or values.dtype.kind not in "iuf" or not np.isfinite(values).all():
        raise ValueError(f"column {name} must hold a number for every episode")
    if (values < 0).any():
        raise ValueError(f"column {name} holds the negative number {values.min()}")
    return values


def _check_numbering(episodes: EpisodeTable, numbers: np.ndarray, info: DatasetInfo) -> None:
    count = len(episodes)
    if not np.array_equal(numbers, np.arange(count)):
        raise ValueError(f"the {count} episodes must be numbered 0 to {count - 1}, without gaps")
    if info.total_episodes not in (0, count):
        raise ValueError(
            f"{names.INFO_FILE} counts {info.total_episodes} episodes, here are {count}"
        )
    borders = np.concatenate([[0], episodes.to_index[:-1]])
    gap = (episodes.from_index != borders) | (episodes.to_index < episodes.from_index)
    if gap.any():
        number = int(np.argmax(gap))
        start, stop = int(episodes.from_index[number]), int(episodes.to_index[number])
        raise ValueError(
            f"episode {number} covers frames {start} to {stop}, but must begin at {borders[number]}"
        )


def _row(number: int, record: EpisodeRecord) -> dict[str, Any]:
    chunk_index, file_index = record.data_file
    row: dict[str, Any] = {
        names.EPISODE_INDEX: number,
        "tasks": record.tasks,
        "length": record.to_index - record.from_index,
        "data/chunk_index": chunk_index,
        "data/file_index": file_index,
        "dataset_from_index": record.from_index,
        "dataset_to_index": record.to_index,
    }
    for key, placement in record.videos.items():
        row |= {_video_column(key, name): value for name, value in vars(placement).items()}
    for key, stats in record.stats.items():
        row |= {f"stats/{key}/{name}": value for name, value in stats.items()}
    return row | {"meta/episodes/chunk_index": 0, "meta/episodes/file_index": 0}


def _column(values: list[Any]) -> pa.Array:
    if not isinstance(values[0], np.ndarray):
        return pa.array(values)
    kind = pa.int64() if values[0].dtype.kind == "i" else pa.float64()
    for _ in range(values[0].ndim):
        kind = pa.list_(kind)
    return pa.array([value.tolist() for value in values], type=kind)
