"""The rows of a growing `metrics.jsonl`: new ones, and all of them again after a rewrite."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from manyhands.observe.jsonl import UNFINISHED, parse_rows


class RowFile:
    """Reads what was written since the last call."""

    def __init__(self, path: Path) -> None:
        self._path = path
        # An open file: its inode is not given to the file that replaces it.
        self._file: BinaryIO | None = None

    def read(self) -> Iterator[dict[str, Any]]:
        """Complete rows since the last call; a file that was replaced is read from its start."""
        if self._file is None or not self._is_current(self._file):
            self._open()
        if self._file is None:
            return
        start = self._file.tell()
        text = self._file.read()
        complete = text[: text.rfind(b"\n") + 1]
        self._file.seek(start + len(complete))
        for row in parse_rows(complete.decode()):
            if "step" in row and not row.get(UNFINISHED):
                yield row

    def _is_current(self, file: BinaryIO) -> bool:
        try:
            return os.path.samestat(os.fstat(file.fileno()), self._path.stat())
        except FileNotFoundError:
            return True

    def _open(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file = self._path.open("rb") if self._path.exists() else None
