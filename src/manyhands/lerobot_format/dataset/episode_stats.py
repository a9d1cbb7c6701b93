"""Statistics and extra columns of single episodes, read on demand."""

import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from manyhands.errors import DatasetError
from manyhands.lerobot_format import names
from manyhands.lerobot_format.dataset import version2
from manyhands.lerobot_format.dataset.episodes import STATS_PREFIX, episode_files
from manyhands.lerobot_format.dataset.info import DatasetInfo
from manyhands.lerobot_format.dataset.statistics import parse_stats
from manyhands.lerobot_format.dataset.tables import (
    is_there,
    json_lines,
    leaf_type,
    naming_file,
    read_columns,
    read_footer,
    whole_numbers,
)
from manyhands.types import Stats


def read_episode_stats(
    root: Path, info: DatasetInfo, episodes: np.ndarray | None = None
) -> list[Stats] | None:
    """Read the statistics of the given episodes, or of all; None unless all have some."""
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
        with naming_file(path):
            if number in found:
                raise ValueError(f"episode {number} appears twice")
            found[number] = parse_stats(stats, info.features)
    return found


def _from_tables(
    root: Path, info: DatasetInfo, wanted: Collection[int] | None
) -> dict[int, Stats] | None:
    found: dict[int, Stats] = {}
    for file in episode_files(root):
        table = read_columns(file, [names.EPISODE_INDEX])
        with naming_file(file):
            numbers = whole_numbers(table, names.EPISODE_INDEX).tolist()
        places = [
            place for place, number in enumerate(numbers) if wanted is None or number in wanted
        ]
        if not places:
            continue
        stored = read_footer(file).schema.to_arrow_schema().names
        columns = [
            each for each in stored if each.startswith(STATS_PREFIX) and each.count("/") == 2
        ]
        if not columns:
            return None
        table = read_columns(file, columns).take(pa.array(places, pa.int64()))
        with naming_file(file):
            _check_types(table)
            for place, row in zip(places, table.to_pylist(), strict=True):
                found[numbers[place]] = parse_stats(_document(row), info.features)
    return found


def _check_types(table: pa.Table) -> None:
    numbers = (pa.types.is_floating, pa.types.is_integer, pa.types.is_boolean, pa.types.is_null)
    for field in table.schema:
        if not any(is_number(leaf_type(field.type)) for is_number in numbers):
            raise ValueError(f"column {field.name} must contain numbers, not {field.type}")


def _document(row: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Statistics by feature and name from a row; empty values are skipped."""
    document: dict[str, dict[str, Any]] = {}
    for column, value in row.items():
        _, feature, name = column.split("/")
        if value is not None:
            document.setdefault(feature, {})[name] = value
    return document


_KNOWN = {names.EPISODE_INDEX, "tasks", "length", "dataset_from_index", "dataset_to_index"}
_KNOWN_PREFIXES = ("stats/", "data/", "videos/", "meta/", "__index_level_")


def read_episode_labels(root: Path, info: DatasetInfo, episodes: Sequence[int]) -> pa.Table:
    """Read the index of each given episode, and its labels if there are any."""
    if info.major_version == 2:
        path = root / names.EPISODE_LINES_FILE
        tables = [_labels_from_lines(path)]
    else:
        path = root / names.EPISODES_FOLDER
        tables = [_from_table(file) for file in episode_files(root)]
    with naming_file(path):
        table = joined_labels(tables)
        places = pc.index_in(pa.array(episodes, pa.int64()), table[names.EPISODE_INDEX])
        return table.take(places)


def joined_labels(tables: Sequence[pa.Table]) -> pa.Table:
    """Concatenate labels of several tables; missing labels are null."""
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException as error:
        raise ValueError(f"labels of episodes have different types: {error}") from None


def _from_table(file: Path) -> pa.Table:
    columns = read_footer(file).schema.to_arrow_schema().names
    labels = [name for name in columns if _is_label(name)]
    table = read_columns(file, [names.EPISODE_INDEX, *labels]).replace_schema_metadata(None)
    numbers = table[names.EPISODE_INDEX].cast(pa.int64())
    return table.set_column(0, names.EPISODE_INDEX, numbers)


def _labels_from_lines(path: Path) -> pa.Table:
    lines = [*json_lines(path)]
    labels = dict.fromkeys(key for line in lines for key in line if _is_label(key))
    columns = {key: _column([line.get(key) for line in lines]) for key in labels}
    numbers = pa.array([line[names.EPISODE_INDEX] for line in lines], pa.int64())
    return pa.table({names.EPISODE_INDEX: numbers, **columns})


def _column(values: list[Any]) -> pa.Array:
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError):
        # Types in lines of JSON may differ; those in a column may not.
        return pa.array([json.dumps(value, ensure_ascii=False) for value in values])


def _is_label(name: str) -> bool:
    return name not in _KNOWN and not name.startswith(_KNOWN_PREFIXES)
