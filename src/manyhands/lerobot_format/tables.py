"""The two kinds of file that describe a dataset, JSON and parquet; faults name the file."""

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from manyhands.errors import DatasetError
from manyhands.lerobot_format.files import read_json

WRITING: dict[str, Any] = {"compression": "snappy", "write_page_checksum": True}
"""How parquet files are written: as LeRobot does, and so that a flipped bit is noticed."""

_FAULTS = (pa.ArrowException, OSError, ValueError)


def read_json_object(path: Path) -> dict[str, Any]:
    """The object a JSON file of a dataset holds."""
    return read_json(path, DatasetError)


def write_json_object(path: Path, document: Mapping[str, Any]) -> None:
    """Write a document as LeRobot does: four spaces, no final newline, text as it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=4, ensure_ascii=False), encoding="utf-8")


def read_footer(path: Path, columns: Collection[str] = ()) -> pq.FileMetaData:
    """What a parquet file says about itself; it must have `columns`."""
    if not path.is_file():
        raise DatasetError(f"{path} is missing; copy or download the dataset again")
    try:
        footer = pq.read_metadata(path)
        present = footer.schema.to_arrow_schema().names
    except _FAULTS as error:
        raise damaged(path, error) from None
    absent = [name for name in columns if name not in present]
    if absent:
        raise DatasetError(f"{path} has no column {', '.join(absent)}")
    return footer


def read_columns(path: Path, columns: Sequence[str]) -> pa.Table:
    """The named columns of a parquet file."""
    footer = read_footer(path, columns)
    try:
        with pq.ParquetFile(path, metadata=footer, page_checksum_verification=True) as file:
            table = file.read(columns=list(columns))
        table.validate(full=True)
    except _FAULTS as error:
        raise damaged(path, error) from None
    return table


def read_row_group(path: Path, footer: pq.FileMetaData, group: int, column: str) -> pa.ChunkedArray:
    """One column of one row group of a parquet file whose footer is known."""
    try:
        with pq.ParquetFile(path, metadata=footer, page_checksum_verification=True) as file:
            values = file.read_row_group(group, columns=[column])[column]
        values.validate(full=True)
    except _FAULTS as error:
        raise damaged(path, error) from None
    return values


def write_table(path: Path, table: pa.Table) -> None:
    """Write a table as one parquet file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, **WRITING)


def damaged(path: Path, error: Exception) -> DatasetError:
    """What to tell about a file that is cut short or overwritten."""
    reason = " ".join(str(error).split())
    return DatasetError(f"{path} is damaged: {reason}; copy or download the dataset again")
