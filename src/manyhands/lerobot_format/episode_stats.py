"""Statistics of single episodes, read when they are asked for."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from manyhands.errors import DatasetError
from manyhands.lerobot_format import names, version2
from manyhands.lerobot_format.counting import whole_numbers
from manyhands.lerobot_format.dataset_info import DatasetInfo
from manyhands.lerobot_format.episodes import STATS_PREFIX, episode_files
from manyhands.lerobot_format.statistics import parse_stats
from manyhands.lerobot_format.tables import (
    faults_of,
    is_there,
    leaf_type,
    read_columns,
    read_footer,
)
from manyhands.types import Stats


def read_episode_stats(
    root: Path, info: DatasetInfo, episodes: np.ndarray | None = None
) -> list[Stats] | None:
    """Statistics of the episodes asked for, or of all; None unless all of them have some."""
    wanted = None if episodes is None else set(episodes.tolist())
    if info.major_version == 2:
        where, found = names.EPISODE_STATS_LINES_FILE, _from_lines(root, info, wanted)
    else:
        where, found = names.EPISODES_FOLDER, _from_tables(root, info, wanted)
    if found is None:
        return None
    numbers = sorted(found) if episodes is None else episodes.tolist()
    absent = [number for number in numbers if number not in found]
    if absent:
        raise DatasetError(
            f"{root / where} has no statistics of episode {', '.join(map(str, absent[:8]))}; copy "
            "or download the dataset again"
        )
    return [found[number] for number in numbers]


def _from_lines(
    root: Path, info: DatasetInfo, wanted: Collection[int] | None
) -> dict[int, Stats] | None:
    path = root / names.EPISODE_STATS_LINES_FILE
    if not is_there(path):
        return None
    found: dict[int, Stats] = {}
    for number, stats in version2.stats_lines(root):
        if wanted is not None and number not in wanted:
            continue
        with faults_of(path):
            if number in found:
                raise ValueError(f"episode {number} appears twice")
            found[number] = parse_stats(stats, info.features)
    return found


def _from_tables(
    root: Path, info: DatasetInfo, wanted: Collection[int] | None
) -> dict[int, Stats] | None:
    found: dict[int, Stats] = {}
    for file in episode_files(root):
        numbers = _numbers(file)
        places = [
            place for place, number in enumerate(numbers) if wanted is None or number in wanted
        ]
        if not places:
            continue
        columns = _stats_columns(file)
        if not columns:
            return None
        table = read_columns(file, columns).take(pa.array(places, pa.int64()))
        with faults_of(file):
            _check_types(table)
            for place, row in zip(places, table.to_pylist(), strict=True):
                found[numbers[place]] = parse_stats(_document(row), info.features)
    return found


def _numbers(file: Path) -> list[int]:
    table = read_columns(file, [names.EPISODE_INDEX])
    with faults_of(file):
        numbers: list[int] = whole_numbers(table, names.EPISODE_INDEX).tolist()
    return numbers


def _stats_columns(file: Path) -> list[str]:
    columns = read_footer(file).schema.to_arrow_schema().names
    return [name for name in columns if name.startswith(STATS_PREFIX) and name.count("/") == 2]


def _check_types(table: pa.Table) -> None:
    numbers = (pa.types.is_floating, pa.types.is_integer, pa.types.is_boolean, pa.types.is_null)
    for field in table.schema:
        if not any(is_number(leaf_type(field.type)) for is_number in numbers):
            raise ValueError(f"column {field.name} must contain numbers, not {field.type}")


def _document(row: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Statistics by feature and name from a row; what it leaves empty is left out."""
    document: dict[str, dict[str, Any]] = {}
    for column, value in row.items():
        _, feature, name = column.split("/")
        if value is not None:
            document.setdefault(feature, {})[name] = value
    return document
