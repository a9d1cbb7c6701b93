"""The metadata of a damaged dataset, as far as it can be read, of either version."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from manyhands.data.repairing.report import RepairReport
from manyhands.lerobot_format import names
from manyhands.lerobot_format.dataset.file_condition import file_condition

Placed = tuple[int, int, float]  # Chunk, file and start in seconds of a video clip

_TEXT_COLUMNS = (names.TASK, "__index_level_0__")
_FAULTS = (pa.ArrowException, OSError, ValueError)


@dataclass(frozen=True)
class FoundEpisode:
    """What the metadata says of an episode; None where it says nothing usable."""

    number: int
    length: int | None
    tasks: list[str]
    data_file: tuple[int, int] | None = None
    videos: dict[str, Placed] = field(default_factory=dict)  # By camera; empty in version 2


@dataclass(frozen=True)
class FoundMetadata:
    """The folder `meta`, of which any file may be missing or damaged."""

    info: dict[str, Any]
    tasks: dict[int, str]
    episodes: dict[int, FoundEpisode]


def read_metadata(root: Path, report: RepairReport) -> FoundMetadata:
    """Read what can be read; the rest is noted and comes from the data files."""
    return FoundMetadata(
        info=_info(root / names.INFO_FILE, report),
        tasks=dict(_tasks(root, report)),
        episodes={each.number: each for each in _episodes(root, report)},
    )


def _info(path: Path, report: RepairReport) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        _note(path, error, report)
        return {}
    return document if isinstance(document, dict) else {}


def _tasks(root: Path, report: RepairReport) -> Iterator[tuple[int, str]]:
    for row in _rows(root, [names.TASKS_FILE], names.TASK_LINES_FILE, report):
        text = next((row[name] for name in _TEXT_COLUMNS if name in row), None)
        number = row.get(names.TASK_INDEX)
        if isinstance(number, int) and isinstance(text, str):
            yield number, text


def _episodes(root: Path, report: RepairReport) -> Iterator[FoundEpisode]:
    folder = root / names.EPISODES_FOLDER
    files = [str(path.relative_to(root)) for path in sorted(folder.glob("*/*.parquet"))]
    for row in _rows(root, files, names.EPISODE_LINES_FILE, report):
        number, length = row.get(names.EPISODE_INDEX), row.get("length")
        if not isinstance(number, int):
            continue
        tasks = row["tasks"] if isinstance(row.get("tasks"), list) else []
        chunk, file = row.get("data/chunk_index"), row.get("data/file_index")
        yield FoundEpisode(
            number,
            length=length if isinstance(length, int) else None,
            tasks=[text for text in tasks if isinstance(text, str)],
            data_file=(chunk, file) if chunk is not None and file is not None else None,
            videos=dict(_placements(row)),
        )


def _placements(row: dict[str, Any]) -> Iterator[tuple[str, Placed]]:
    keys = [name.split("/")[1] for name in row if name.startswith("videos/")]
    for key in dict.fromkeys(keys):
        chunk, file, start = (
            row.get(f"videos/{key}/{name}")
            for name in ("chunk_index", "file_index", "from_timestamp")
        )
        if isinstance(chunk, int) and isinstance(file, int) and isinstance(start, int | float):
            yield key, (chunk, file, float(start))


def _rows(
    root: Path, tables: list[str], lines: str, report: RepairReport
) -> Iterator[dict[str, Any]]:
    """Yield rows of parquet files, or the objects of a JSON Lines file where there are none."""
    present = [root / name for name in tables if (root / name).exists()]
    if not present and not (root / lines).exists():
        report.add(lines if not tables else tables[0], "missing", "rebuilt from the data files")
    for path in present or [root / lines]:
        try:
            yield from _read_rows(path)
        except _FAULTS as error:
            _note(path, error, report)


def _read_rows(path: Path) -> Iterator[dict[str, Any]]:
    if path.suffix == ".parquet":
        wanted = [name for name in pq.read_schema(path).names if not name.startswith("stats/")]
        yield from pq.read_table(path, columns=wanted).to_pylist()
    elif path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            document = json.loads(line) if line.strip() else None
            if isinstance(document, dict):
                yield document


def _note(path: Path, error: Exception, report: RepairReport) -> None:
    condition = file_condition(path)
    cause = condition.cause if not condition.is_good else f"is damaged: {error}"
    where = "/".join(path.parts[-2:])
    report.add(where, " ".join(cause.split()), "rebuilt from the data files")
