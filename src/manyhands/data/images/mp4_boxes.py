"""Why an MP4 file cannot be opened: the boxes it consists of tell what is missing."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

_MAX_BOXES = 64
_HEADER_BYTES = 8


def mp4_fault(path: Path) -> str | None:
    """What an MP4 file lacks; None if it is complete, or no MP4 file."""
    try:
        with path.open("rb") as file:
            boxes = [*_boxes(file)]
            num_bytes = os.fstat(file.fileno()).st_size
    except OSError:
        return None
    if not boxes or boxes[0][0] != b"ftyp":
        return None
    if boxes[-1][1] > num_bytes:
        return f"truncated, it has {num_bytes:,} bytes of {boxes[-1][1]:,} or more"
    kinds = [kind for kind, _ in boxes]
    return None if b"moov" in kinds else "it has no index; its recording was not finished"


def _boxes(file: BinaryIO) -> Iterator[tuple[bytes, int]]:
    """Kind and end of the boxes at the top level."""
    place = 0
    for _ in range(_MAX_BOXES):
        file.seek(place)
        header = file.read(2 * _HEADER_BYTES)
        if len(header) < _HEADER_BYTES:
            return
        size, kind = int.from_bytes(header[:4], "big"), header[4:8]
        if size == 1:
            size = int.from_bytes(header[8:], "big")
        if size < _HEADER_BYTES:
            return
        place += size
        yield kind, place
