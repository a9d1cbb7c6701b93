"""`meta/tasks.parquet`: the text of each task, by index."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from manyhands.lerobot_format import names
from manyhands.lerobot_format.dataset.tables import (
    counted_order,
    is_text,
    naming_file,
    read_columns,
    read_footer,
    whole_numbers,
    write_table,
)

# pandas stores an unnamed index under the second name.
_TEXT_COLUMNS = (names.TASK, "__index_level_0__")


def read_tasks(root: Path) -> list[str]:
    """Read task texts in the order of their indices."""
    path = root / names.TASKS_FILE
    present = read_footer(path).schema.to_arrow_schema().names
    text = next((name for name in _TEXT_COLUMNS if name in present), names.TASK)
    table = read_columns(path, [names.TASK_INDEX, text])
    with naming_file(path):
        if not is_text(table[text].type):
            raise ValueError(f"column {text} must contain strings, not {table[text].type}")
        return tasks_in_order(whole_numbers(table, names.TASK_INDEX), table[text].to_pylist())


def tasks_in_order(numbers: Sequence[int] | np.ndarray, texts: Sequence[object]) -> list[str]:
    """Sort texts by index; raises ValueError if indices or texts are invalid."""
    # Readers of other tools leave a task without a text empty.
    tasks = [
        "" if texts[place] is None else texts[place] for place in counted_order(numbers, "tasks")
    ]
    for number, task in enumerate(tasks):
        if not isinstance(task, str):
            raise ValueError(f"task {number} must be a string, not {task!r:.60}")
    return [str(task) for task in tasks]


def write_tasks(root: Path, tasks: list[str]) -> None:
    """Write task texts as the index of a pandas table, as LeRobot reads them."""
    columns = {names.TASK_INDEX: pa.array(range(len(tasks)), pa.int64()), names.TASK: tasks}
    table = pa.table(columns).replace_schema_metadata({"pandas": json.dumps(_pandas_metadata())})
    write_table(root / names.TASKS_FILE, table)


def _pandas_metadata() -> dict[str, Any]:
    def column(
        name: str | None, pandas_type: str, numpy_type: str, metadata: Any
    ) -> dict[str, Any]:
        return {
            "name": name,
            "field_name": name,
            "pandas_type": pandas_type,
            "numpy_type": numpy_type,
            "metadata": metadata,
        }

    return {
        "index_columns": [names.TASK],
        "column_indexes": [column(None, "unicode", "object", {"encoding": "UTF-8"})],
        "columns": [
            column(names.TASK_INDEX, "int64", "int64", None),
            column(names.TASK, "unicode", "object", None),
        ],
        "creator": {"library": "pyarrow", "version": pa.__version__},
        "pandas_version": "2.3.3",
    }
