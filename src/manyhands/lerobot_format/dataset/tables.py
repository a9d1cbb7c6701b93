"""JSON and parquet files of a dataset's metadata; errors name the file."""

import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from manyhands.config.policies.size_limits import total_memory
from manyhands.errors import DatasetError
from manyhands.lerobot_format.dataset.fetching import dataset_root
from manyhands.lerobot_format.dataset.repairing import contradiction_remedy
from manyhands.lerobot_format.dataset.unusable_file import (
    check_file,
    damaged_file,
    unreadable_file,
)
from manyhands.lerobot_format.files import parse_json

WRITING: dict[str, Any] = {"compression": "snappy", "write_page_checksum": True}
"""How parquet files are written: as LeRobot does, and so that a flipped bit is noticed."""

_LEAST_BYTES = 4  # Bytes of a value in memory, at least; truth values, which are smaller, are rare
_FAULTS = (pa.ArrowException, OSError, ValueError)


def is_there(path: Path) -> bool:
    """Whether an entry exists, including a broken link."""
    return os.path.lexists(path)


def json_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Read the objects of a JSON Lines file one by one; empty lines are skipped."""
    check_file(path)
    try:
        # Strings may contain other characters that count as line ends unless newline is set.
        with path.open(encoding="utf-8", newline="\n") as file:
            numbered = ((number, line) for number, line in enumerate(file, start=1) if line.strip())
            yield from (_line(path, number, line) for number, line in numbered)
    except OSError as error:
        raise unreadable_file(path, error) from None
    except UnicodeDecodeError as error:
        raise damaged_file(path, error) from None


def _line(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        document = parse_json(line)
    except ValueError as error:
        raise damaged_file(path, f"line {number}: {error}") from None
    if not isinstance(document, dict):
        raise damaged_file(path, f"line {number} must be a JSON object, not {document!r:.60}")
    return document


def write_json_object(path: Path, document: Mapping[str, Any]) -> None:
    """Write a document as LeRobot does: indent 4, no final newline, no ASCII escapes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=4, ensure_ascii=False), encoding="utf-8")


def read_footer(path: Path, columns: Collection[str] = ()) -> pq.FileMetaData:
    """Read the footer of a parquet file, which must have `columns`."""
    check_file(path)
    try:
        footer = pq.read_metadata(path)
        present = footer.schema.to_arrow_schema().names
    except _FAULTS as error:
        raise damaged_file(path, error) from None
    absent = [name for name in columns if name not in present]
    if absent:
        raise DatasetError(f"{path} has no column {', '.join(absent)}")
    repeated = [name for name in columns if present.count(name) > 1]
    if repeated:
        raise damaged_file(path, f"duplicate columns {', '.join(repeated)}")
    return footer


def read_columns(path: Path, columns: Sequence[str]) -> pa.Table:
    """Read the named columns of a parquet file."""
    footer = read_footer(path, columns)
    _check_memory(path, footer, columns)
    try:
        with pq.ParquetFile(path, metadata=footer, page_checksum_verification=True) as file:
            # For `a`, the library also reads `a.b`.
            table = file.read(columns=list(columns)).select(columns)
        _check_complete(table, footer.num_rows)
    except _FAULTS as error:
        raise damaged_file(path, error) from None
    return table


def read_row_group(path: Path, footer: pq.FileMetaData, group: int, column: str) -> pa.ChunkedArray:
    """Read one column of one row group of a parquet file, given its footer."""
    return read_row_groups(path, footer, [group], [column])[column]


def read_row_groups(
    path: Path, footer: pq.FileMetaData, groups: Sequence[int], columns: Sequence[str]
) -> pa.Table:
    """Read columns of some row groups of a parquet file, given its footer."""
    try:
        with pq.ParquetFile(path, metadata=footer, page_checksum_verification=True) as file:
            table = file.read_row_groups(list(groups), columns=list(columns))
        _check_complete(table, sum(footer.row_group(group).num_rows for group in groups))
    except _FAULTS as error:
        raise damaged_file(path, error) from None
    return table


def _check_memory(path: Path, footer: pq.FileMetaData, columns: Collection[str]) -> None:
    """Reject columns that do not fit into memory: a repeated value takes no disk space."""
    # Rows give the minimum number of values. Column chunks give it exactly, but reading those of a
    # damaged footer makes pyarrow abort the process.
    num_values = footer.num_rows * len(columns)
    if num_values * _LEAST_BYTES > total_memory():
        raise damaged_file(path, f"it declares {num_values} values, which do not fit in memory")


def _check_complete(table: pa.Table, num_rows: int) -> None:
    """Reject tables that a damaged page makes invalid."""
    table.validate(full=True)
    if table.num_rows != num_rows:
        raise ValueError(f"it has {table.num_rows} readable rows instead of {num_rows}")


def leaf_type(kind: pa.DataType) -> pa.DataType:
    """The value type of arbitrarily nested lists."""
    while is_list(kind):
        kind = kind.value_type
    return kind


def is_list(kind: pa.DataType) -> bool:
    """Whether values of this type are lists, in any of Arrow's list types."""
    lists = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return any(is_kind(kind) for is_kind in lists)


def is_text(kind: pa.DataType) -> bool:
    """Whether a column of this type contains strings, in any of Arrow's string types."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(is_kind(kind) for is_kind in texts)


def write_table(path: Path, table: pa.Table) -> None:
    """Write a table as one parquet file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, **WRITING)


@contextmanager
def naming_file(path: Path) -> Iterator[None]:
    """Convert a ValueError of the block to an error that names the file."""
    try:
        yield
    except ValueError as error:
        remedy = contradiction_remedy(dataset_root(path), path)
        raise DatasetError(f"{path}: {error}\n{remedy}") from None


_END = 2**53  # The first whole number that a table written with doubles may have rounded


def whole_number(value: object, name: str, least: int = 0) -> int:
    """Validate an integer; raises ValueError that names it."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value < _END:
        raise ValueError(f"{name} must be an integer of at least {least}, not {value!r:.60}")
    return value


def real_numbers(table: pa.Table, name: str) -> np.ndarray:
    """Validate a column of non-negative numbers; raises ValueError that names it."""
    column = table[name]
    is_number = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    if column.null_count or not is_number:
        raise ValueError(f"column {name} must have a number in every row")
    values: np.ndarray = column.to_numpy()
    is_fine = (values >= 0) & (values < _END)
    if not is_fine.all():
        raise ValueError(
            f"column {name} contains {values[~is_fine][0]}, not a number of at least 0"
        )
    return values


def whole_numbers(table: pa.Table, name: str) -> np.ndarray:
    """Validate a column of non-negative integers; raises ValueError that names it."""
    values = real_numbers(table, name)
    whole = values.astype(np.int64)
    if (whole != values).any():
        raise ValueError(f"column {name} contains {values[whole != values][0]}, not an integer")
    return whole


def counted_order(numbers: Sequence[int] | np.ndarray, noun: str) -> np.ndarray:
    """The order that sorts indices, which must be 0, 1, 2 and so on, each once."""
    order = np.argsort(numbers, kind="stable")
    ranked = np.asarray(numbers)[order]
    wrong = np.flatnonzero(ranked != np.arange(len(ranked)))
    if wrong.size:
        place = int(wrong[0])
        fault = f"{place - 1} appears twice" if ranked[place] < place else f"{place} is missing"
        raise ValueError(f"{noun} must be numbered 0 to {len(ranked) - 1}, but {fault}")
    return order
