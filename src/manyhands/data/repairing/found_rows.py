"""The rows of data files, split into episodes by whichever column can tell them apart."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from manyhands.data.repairing.found_files import FoundFile
from manyhands.data.repairing.found_metadata import FoundMetadata
from manyhands.data.repairing.report import RepairReport
from manyhands.lerobot_format import names
from manyhands.lerobot_format.dataset.file_condition import file_condition
from manyhands.lerobot_format.dataset.tables import read_columns
from manyhands.lerobot_format.dataset.unusable_file import UnusableFile


@dataclass(frozen=True)
class FoundRows:
    """The rows of an episode."""

    number: int  # In the damaged dataset
    file: Path
    rows: pa.Table


def found_rows(
    files: Sequence[FoundFile], meta: FoundMetadata, report: RepairReport
) -> Iterator[FoundRows]:
    """Yield the episodes of readable files in their order; those of others are noted."""
    taken: set[int] = set()
    for file in files:
        expected = _expected(file, meta)
        table = _read(file, expected, report)
        if table is None:
            taken.update(expected)
            continue
        starts = _starts(file, table, [meta.episodes[each].length or 0 for each in expected])
        ends = [*starts[1:], table.num_rows]
        for place, (start, end) in enumerate(zip(starts, ends, strict=True)):
            rows = table.slice(start, end - start)
            number = _number(file, rows, expected[place : place + 1], taken)
            taken.add(number)
            yield FoundRows(number, file.path, rows)


def _read(file: FoundFile, expected: list[int], report: RepairReport) -> pa.Table | None:
    where = "/".join(file.path.parts[-3:])
    condition = file_condition(file.path)
    if not condition.is_good:
        report.drop(where, condition.cause, expected)
        return None
    try:
        table = read_columns(file.path, list(dict.fromkeys(pq.read_schema(file.path).names)))
    except UnusableFile as error:
        report.drop(where, error.cause, expected)
        return None
    except (pa.ArrowException, OSError) as error:
        report.drop(where, f"is damaged: {error}", expected)
        return None
    if not table.num_rows:
        report.drop(where, "has no rows", expected)
        return None
    return table


def _expected(file: FoundFile, meta: FoundMetadata) -> list[int]:
    """Numbers of the episodes that the metadata, or the file's name, places in a file."""
    if file.is_one_episode:
        return [file.number] if file.number in meta.episodes else []
    place = (file.chunk, file.number)
    return sorted(number for number, each in meta.episodes.items() if each.data_file == place)


def _starts(file: FoundFile, table: pa.Table, lengths: list[int]) -> list[int]:
    """The first rows of a file's episodes."""
    if file.is_one_episode:
        return [0]
    # Wrong numbers are mostly those of one long episode: of several answers, the finest is right.
    found = [_runs(table), _counts(table)]
    found += [_ends(lengths[:-1])] if lengths and sum(lengths) == table.num_rows else []
    known = [starts for starts in found if starts is not None]
    return max(known, key=len) if known else _resets(table)


def _runs(table: pa.Table) -> list[int] | None:
    """Where the episode's number changes; None if a number comes back."""
    values = _values(table, names.EPISODE_INDEX)
    if values is None:
        return None
    starts = [0, *(np.flatnonzero(np.diff(values)) + 1).tolist()]
    return starts if len(np.unique(values[starts])) == len(starts) else None


def _counts(table: pa.Table) -> list[int] | None:
    """Where the frame's number is zero; None if it does not count from there."""
    values = _values(table, names.FRAME_INDEX)
    if values is None or values[0] != 0:
        return None
    starts = np.flatnonzero(values == 0)
    lengths = np.diff([*starts, len(values)])
    is_counted = np.array_equal(values, np.arange(len(values)) - np.repeat(starts, lengths))
    return starts.tolist() if is_counted and len(starts) < max(2, len(values)) else None


def _ends(lengths: list[int]) -> list[int]:
    return [0, *np.cumsum(lengths, dtype=np.int64).tolist()]


def _resets(table: pa.Table) -> list[int]:
    """Where time goes back."""
    values = _values(table, names.TIMESTAMP)
    if values is None:
        return [0]
    return [0, *(np.flatnonzero(np.diff(values) < 0) + 1).tolist()]


def _values(table: pa.Table, name: str) -> np.ndarray | None:
    if name not in table.column_names or table[name].null_count:
        return None
    try:
        values: np.ndarray = table[name].to_numpy()
    except (pa.ArrowException, ValueError):
        return None
    return values if values.dtype.kind in "iuf" else None


def _number(file: FoundFile, rows: pa.Table, expected: list[int], taken: set[int]) -> int:
    """The number of an episode: of its file, its rows or the metadata, else the next one."""
    column = _values(rows, names.EPISODE_INDEX)
    candidates = [file.number] if file.is_one_episode else []
    candidates += [] if column is None else [int(column[0])]
    free = [each for each in (*candidates, *expected) if each not in taken]
    return free[0] if free else max(taken, default=-1) + 1
