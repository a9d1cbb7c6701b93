"""Metadata of dataset versions 2.0 and 2.1: JSON Lines files."""

from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from manyhands.lerobot_format import names
from manyhands.lerobot_format.dataset.episode_table import (
    EpisodeTable,
    check_episodes,
    checked_tasks,
    file_column,
)
from manyhands.lerobot_format.dataset.info import DatasetInfo
from manyhands.lerobot_format.dataset.statistics import aggregate_stats, parse_stats
from manyhands.lerobot_format.dataset.tables import (
    counted_order,
    json_lines,
    naming_file,
    whole_number,
)
from manyhands.lerobot_format.dataset.tasks import tasks_in_order
from manyhands.types import Stats

_BLOCK_LINES = 1000  # Episodes whose statistics are in memory at once


def read_tasks(root: Path) -> list[str]:
    """Read task texts in the order of their indices."""
    path = root / names.TASK_LINES_FILE
    lines = [*json_lines(path)]
    with naming_file(path):
        numbers = [_count(line, names.TASK_INDEX) for line in lines]
        return tasks_in_order(numbers, [line.get(names.TASK) for line in lines])


def read_episodes(root: Path, info: DatasetInfo) -> EpisodeTable:
    """Read the episodes of a dataset; each has its own files."""
    path = root / names.EPISODE_LINES_FILE
    lines = [*json_lines(path)]
    with naming_file(path):
        numbers = [_count(line, names.EPISODE_INDEX) for line in lines]
        order = counted_order(numbers, "episodes")
        lengths = np.array([_length(lines[place]) for place in order], dtype=np.int64)
        tasks = [checked_tasks(lines[place].get("tasks")) for place in order]
        episodes = _episodes(lengths, tasks, info)
        check_episodes(episodes)
    return episodes


def stats_lines(root: Path) -> Iterator[tuple[int, dict[str, dict[str, Any]]]]:
    """Yield the index and the stored statistics of each episode."""
    path = root / names.EPISODE_STATS_LINES_FILE
    for line in json_lines(path):
        with naming_file(path):
            number = _count(line, names.EPISODE_INDEX)
            stats: Any = line.get("stats")
            objects = stats.values() if isinstance(stats, dict) else [stats]
            if not all(isinstance(each, dict) for each in objects):
                raise ValueError(f"the stats of episode {number} must be an object of objects")
        yield number, stats


def read_stats(root: Path, info: DatasetInfo) -> Stats:
    """Aggregate the statistics of the dataset from those of its episodes."""
    lines = stats_lines(root)
    numbers: list[int] = []
    parts: list[Stats] = []
    with naming_file(root / names.EPISODE_STATS_LINES_FILE):
        while block := list(islice(lines, _BLOCK_LINES)):
            numbers += [number for number, _ in block]
            parts.append(aggregate_stats([stats for _, stats in block]))
        counted_order(numbers, "episodes")
        if len(numbers) != info.total_episodes:
            raise ValueError(
                f"expected a line for each of {info.total_episodes} episodes, found {len(numbers)}"
            )
        return parse_stats(aggregate_stats(parts), info.features)


def _episodes(lengths: np.ndarray, tasks: list[list[str]], info: DatasetInfo) -> EpisodeTable:
    numbers = np.arange(len(lengths))
    chunks = numbers // info.chunks_size
    ends = np.cumsum(lengths)
    return EpisodeTable(
        from_index=ends - lengths,
        to_index=ends,
        tasks=tasks,
        data_files=file_column(chunks, numbers, info.data_file),
        video_files={
            key: file_column(chunks, numbers, partial(info.video_file, key))
            for key in info.video_keys
        },
        video_starts_s={key: np.zeros(len(lengths)) for key in info.video_keys},
    )


def _length(line: dict[str, Any]) -> int:
    try:
        return _count(line, "length")
    except ValueError as error:
        raise ValueError(f"episode {line[names.EPISODE_INDEX]}: {error}") from None


def _count(line: dict[str, Any], key: str) -> int:
    return whole_number(line.get(key), key)
