"""`meta/episodes`: the rows and the video timestamps of each episode."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from manyhands.errors import DatasetError
from manyhands.lerobot_format import names
from manyhands.lerobot_format.dataset.episode_table import (
    EpisodeTable,
    FileColumn,
    check_episodes,
    checked_tasks,
    file_column,
)
from manyhands.lerobot_format.dataset.fetching import fetch_remedy
from manyhands.lerobot_format.dataset.file_condition import Condition
from manyhands.lerobot_format.dataset.info import DatasetInfo
from manyhands.lerobot_format.dataset.tables import (
    counted_order,
    is_text,
    leaf_type,
    naming_file,
    read_columns,
    read_footer,
    real_numbers,
    whole_numbers,
    write_table,
)
from manyhands.lerobot_format.dataset.unusable_file import UnusableFile, unreadable_file
from manyhands.types import Stats

STATS_PREFIX = "stats/"
_TASKS = "tasks"
_LENGTH = "length"
_FROM_INDEX = "dataset_from_index"
_TO_INDEX = "dataset_to_index"


@dataclass(frozen=True)
class Placement:
    """The location of one episode's clip of one camera."""

    chunk_index: int
    file_index: int
    from_timestamp: float
    to_timestamp: float


@dataclass(frozen=True)
class EpisodeRecord:
    """One episode, as written to the metadata."""

    tasks: list[str]
    from_index: int
    to_index: int
    data_file: tuple[int, int]  # Chunk and file number of its rows
    stats: Stats
    videos: dict[str, Placement] = field(default_factory=dict)


def read_episodes(root: Path, info: DatasetInfo) -> EpisodeTable:
    """Read the episodes of a version 3 dataset; reject gaps in its frames."""
    columns, tasks = _read_all(episode_files(root), info)
    with naming_file(root / names.EPISODES_FOLDER):
        order = counted_order(columns[names.EPISODE_INDEX], "episodes")
        columns = {name: values[order] for name, values in columns.items()}
        _check_lengths(columns)
        episodes = _parse_episodes(columns, [tasks[place] for place in order], info)
        check_episodes(episodes)
    return episodes


def episode_files(root: Path) -> list[Path]:
    """The files of `meta/episodes`."""
    folder = root / names.EPISODES_FOLDER
    try:
        chunks = [path for path in folder.iterdir() if path.is_dir()]
        entries = [path for chunk in chunks for path in chunk.iterdir()]
    except OSError as error:
        raise unreadable_file(folder, error) from None
    # Some systems add their own files, whose names start with a dot.
    files = [path for path in entries if path.suffix == ".parquet" and path.name[0] != "."]
    if not files:
        remedy = fetch_remedy(folder, Condition.MISSING)
        raise UnusableFile(folder, "contains no episodes", remedy)
    return sorted(files)


def write_episodes(
    root: Path, records: Sequence[EpisodeRecord], labels: pa.Table | None = None
) -> None:
    """Write all episodes to the single file of `meta/episodes`, with additional label columns."""
    rows = [_row(number, record) for number, record in enumerate(records)]
    _check_alike(rows)
    columns = {key: _column([row[key] for row in rows]) for key in rows[0]}
    if labels is not None:
        columns |= {key: labels[key] for key in labels.column_names if key not in columns}
    file = names.EPISODES_PATH.format(chunk_index=0, file_index=0)
    write_table(root / file, pa.table(columns))


def _video_column(key: str, name: str) -> str:
    return f"videos/{key}/{name}"


def _read_all(
    files: Sequence[Path], info: DatasetInfo
) -> tuple[dict[str, np.ndarray], list[list[str]]]:
    kinds = ("data", *(f"videos/{key}" for key in info.video_keys))
    located = [f"{kind}/{part}_index" for kind in kinds for part in ("chunk", "file")]
    whole = [names.EPISODE_INDEX, _LENGTH, _FROM_INDEX, _TO_INDEX, *located]
    starts = [_video_column(key, "from_timestamp") for key in info.video_keys]
    parts: list[dict[str, np.ndarray]] = []
    tasks: list[list[str]] = []
    for file in files:
        has_tasks = _TASKS in read_footer(file).schema.to_arrow_schema().names
        table = read_columns(file, [*whole, *starts, *([_TASKS] if has_tasks else [])])
        with naming_file(file):
            part = {name: whole_numbers(table, name) for name in whole}
            parts.append(part | {name: real_numbers(table, name) for name in starts})
            tasks += _task_lists(table) if has_tasks else [[] for _ in range(table.num_rows)]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}, tasks


def _task_lists(table: pa.Table) -> list[list[str]]:
    column = table[_TASKS]
    kind = leaf_type(column.type)
    if not is_text(kind) and not pa.types.is_null(kind):
        raise ValueError(f"column {_TASKS} must contain strings, not {column.type}")
    return [checked_tasks(each) for each in column.to_pylist()]


def _check_lengths(columns: dict[str, np.ndarray]) -> None:
    lengths = columns[_TO_INDEX] - columns[_FROM_INDEX]
    wrong = np.flatnonzero(columns[_LENGTH] != lengths)
    if wrong.size:
        number = int(wrong[0])
        raise ValueError(
            f"episode {number} has length {columns[_LENGTH][number]}, but covers frames "
            f"{columns[_FROM_INDEX][number]} to {columns[_TO_INDEX][number]}"
        )


def _parse_episodes(
    columns: dict[str, np.ndarray], tasks: list[list[str]], info: DatasetInfo
) -> EpisodeTable:
    def files(prefix: str, locate: Callable[[int, int], str]) -> FileColumn:
        chunks, files = (columns[f"{prefix}/{part}_index"] for part in ("chunk", "file"))
        return file_column(chunks, files, locate)

    return EpisodeTable(
        from_index=columns[_FROM_INDEX],
        to_index=columns[_TO_INDEX],
        tasks=tasks,
        data_files=files("data", info.data_file),
        video_files={
            key: files(f"videos/{key}", partial(info.video_file, key)) for key in info.video_keys
        },
        video_starts_s={
            key: columns[_video_column(key, "from_timestamp")].astype(np.float64)
            for key in info.video_keys
        },
    )


def _row(number: int, record: EpisodeRecord) -> dict[str, Any]:
    chunk_index, file_index = record.data_file
    row: dict[str, Any] = {
        names.EPISODE_INDEX: number,
        _TASKS: record.tasks,
        _LENGTH: record.to_index - record.from_index,
        "data/chunk_index": chunk_index,
        "data/file_index": file_index,
        _FROM_INDEX: record.from_index,
        _TO_INDEX: record.to_index,
    }
    for key, placement in record.videos.items():
        row |= {_video_column(key, name): value for name, value in vars(placement).items()}
    for key, stats in record.stats.items():
        row |= {f"{STATS_PREFIX}{key}/{name}": value for name, value in stats.items()}
    return row | {"meta/episodes/chunk_index": 0, "meta/episodes/file_index": 0}


def _check_alike(rows: list[dict[str, Any]]) -> None:
    if not rows:
        raise DatasetError("a dataset needs at least one episode")
    forms = [{key: np.ndim(value) for key, value in row.items()} for row in rows]
    for number, form in enumerate(forms):
        unlike = sorted({key for key, _ in form.items() ^ forms[0].items()})
        if unlike:
            raise DatasetError(
                f"episode {number} has other columns than episode 0: {', '.join(unlike[:8])}. "
                "Record all episodes with the same cameras and statistics"
            )


def _column(values: list[Any]) -> pa.Array:
    if not isinstance(values[0], np.ndarray):
        return pa.array(values)
    kind = pa.int64() if values[0].dtype.kind == "i" else pa.float64()
    for _ in range(values[0].ndim):
        kind = pa.list_(kind)
    return pa.array([value.tolist() for value in values], type=kind)
