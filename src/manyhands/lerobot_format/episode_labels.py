"""What other tools noted about episodes, in columns that LeRobot itself does not know."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from manyhands.lerobot_format import names
from manyhands.lerobot_format.dataset_info import DatasetInfo
from manyhands.lerobot_format.episodes import episode_files
from manyhands.lerobot_format.tables import (
    faults_of,
    read_columns,
    read_footer,
    read_json_lines,
)

_KNOWN = {names.EPISODE_INDEX, "tasks", "length", "dataset_from_index", "dataset_to_index"}
_KNOWN_PREFIXES = ("stats/", "data/", "videos/", "meta/", "__index_level_")


def read_episode_labels(root: Path, info: DatasetInfo, episodes: Sequence[int]) -> pa.Table:
    """The number of each episode asked for, and its labels where there are any."""
    if info.major_version == 2:
        path = root / names.EPISODE_LINES_FILE
        tables = [_from_lines(path)]
    else:
        path = root / names.EPISODES_FOLDER
        tables = [_from_table(file) for file in episode_files(root)]
    with faults_of(path):
        table = joined_labels(tables)
        places = pc.index_in(pa.array(episodes, pa.int64()), table[names.EPISODE_INDEX])
        return table.take(places)


def joined_labels(tables: Sequence[pa.Table]) -> pa.Table:
    """Labels of several tables; what one of them lacks is empty for its episodes."""
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


def _from_lines(path: Path) -> pa.Table:
    lines = read_json_lines(path)
    labels = dict.fromkeys(key for line in lines for key in line if _is_label(key))
    columns = {key: _column([line.get(key) for line in lines]) for key in labels}
    numbers = pa.array([line[names.EPISODE_INDEX] for line in lines], pa.int64())
    return pa.table({names.EPISODE_INDEX: numbers, **columns})


def _column(values: list[Any]) -> pa.Array:
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError):
        # Lines of JSON may differ in ways that the values of a column may not.
        return pa.array([json.dumps(value, ensure_ascii=False) for value in values])


def _is_label(name: str) -> bool:
    return name not in _KNOWN and not name.startswith(_KNOWN_PREFIXES)
