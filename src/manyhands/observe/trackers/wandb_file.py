"""wandb's own log of a run: the history that it has written to disk.

wandb writes in blocks of 32 KiB, so that a killed run loses the last of what wandb had accepted.
"""

import json
import os
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from wandb.proto.wandb_internal_pb2 import Record

BLOCK_BYTES = 32 * 1024
FILE_HEADER_BYTES = 7
CHUNK_HEADER = struct.Struct("<IHB")  # Checksum, length and kind of a chunk, as in LevelDB's log.
FULL, FIRST, LAST = 1, 2, 4


def run_files(wandb_dir: Path, run_id: str) -> list[Path]:
    """The logs of a run, in the order of its processes."""
    return sorted(wandb_dir.glob(f"*run-*-{run_id}/run-{run_id}.wandb"), key=_started_at)


def _started_at(file: Path) -> str:
    return file.parent.name.removeprefix("offline-")


def read_history(file: Path) -> Iterator[dict[str, Any]]:
    """The rows of a log, of media one property; `_step` is the step that wandb shows."""
    for record in read_records(file):
        if record.HasField("history"):
            items = record.history.item
            yield {item.key or item.nested_key[0]: json.loads(item.value_json) for item in items}


def read_artifacts(file: Path) -> Iterator[str]:
    """The names of the artifacts of a log."""
    for record in read_records(file):
        if record.HasField("artifact"):
            yield record.artifact.name
        elif record.HasField("request") and record.request.HasField("log_artifact"):
            yield record.request.log_artifact.artifact.name


def drop_incomplete_records(wandb_dir: Path, run_id: str) -> None:
    """Repair the logs of killed processes: wandb uploads no log after one that is truncated."""
    for file in run_files(wandb_dir, run_id):
        data = file.read_bytes()
        *_, end = 0, *(end for end, _ in _records(data))
        if end == 0:
            shutil.rmtree(file.parent, ignore_errors=True)
        elif end < len(data):
            os.truncate(file, end)


def read_records(file: Path) -> Iterator[Record]:
    """The records of a log, up to one that was truncated by a crash."""
    for _, record in _records(file.read_bytes()):
        yield record


def _records(data: bytes) -> Iterator[tuple[int, Record]]:
    """The complete records of a log, each with the place where it ends."""
    place, parts = FILE_HEADER_BYTES, b""
    while place + CHUNK_HEADER.size <= len(data):
        left = BLOCK_BYTES - place % BLOCK_BYTES
        if left < CHUNK_HEADER.size:
            place += left
            continue
        _, length, kind = CHUNK_HEADER.unpack_from(data, place)
        place += CHUNK_HEADER.size + length
        if place > len(data) or not kind:
            return
        chunk = data[place - length : place]
        parts = chunk if kind in (FULL, FIRST) else parts + chunk
        if kind in (FULL, LAST):
            yield place, Record.FromString(parts)
