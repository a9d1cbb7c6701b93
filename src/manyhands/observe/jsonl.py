"""JSON-lines files that continue where a run resumes."""

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from manyhands.atomic import atomic_file

BLOCK_BYTES = 64 << 10
MAX_DIGITS = 20
UNFINISHED = "unfinished"  # Marks a row that a stop request wrote early; a resumed run replaces it.


class AppendFile:
    """An append-only file; text that cannot be written waits in memory."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.unwritten = ""
        self.fault: OSError | None = None  # Why text waits; None if all is written.

    def append(self, text: str) -> None:
        """Append text at once, after waiting text."""
        self.unwritten += text
        try:
            append_text(self._path, self.unwritten)
        except OSError as error:
            self.fault = error
        else:
            self.clear()

    def clear(self) -> None:
        """Discard waiting text."""
        self.unwritten, self.fault = "", None


class JsonLines:
    """One JSON object per line; a resumed run drops the rows of steps that it runs again."""

    def __init__(self, path: Path, step: int) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._file = AppendFile(path)
        self.keep_until(step)

    @property
    def fault(self) -> OSError | None:
        """Why rows wait in memory; None if all are written."""
        return self._file.fault

    def append(self, *rows: dict[str, Any]) -> None:
        """Append rows at once, so that a crash loses none."""
        self._file.append("".join(json.dumps(row) + "\n" for row in rows))

    def last(self) -> dict[str, Any]:
        """The last row; empty if there is none."""
        rows = self._rows()
        return rows[-1] if rows else {}

    def _rows(self) -> list[dict[str, Any]]:
        written = list(read_rows(self._path)) if self._path.exists() else []
        return written + [json.loads(line) for line in self._file.unwritten.splitlines()]

    def amend(self, step: int, values: dict[str, Any]) -> None:
        """Add values to the row of a step, if there is one."""
        rows = self._rows()
        self._write([row | values if row.get("step") == step else row for row in rows])

    def keep_until(self, step: int) -> None:
        """Drop rows after a step, and unfinished ones."""
        if self._path.exists() or self._file.unwritten:
            kept = [row for row in self._rows() if row.get("step", 0) <= step]
            self._write([row for row in kept if not row.get(UNFINISHED)])

    def _write(self, rows: list[dict[str, Any]]) -> None:
        with atomic_file(self._path) as scratch:
            scratch.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        self._file.clear()


def append_text(path: Path, text: str) -> None:
    """Append text to a file, completely or not at all."""
    with path.open("ab", buffering=0) as file:
        size = file.seek(0, os.SEEK_END)
        try:
            left = text.encode()
            while left:
                left = left[file.write(left) :]
        except OSError:
            # Half of a row would be read as the start of the next.
            file.truncate(size)
            raise


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a file; skips lines truncated by a crash."""
    return parse_rows(path.read_text(encoding="utf-8"))


def read_last_rows(path: Path, num_bytes: int, rare: str) -> list[dict[str, Any]]:
    """The rows in the last bytes of a file, and all with a rare metric; none if unreadable."""
    if not path.is_file():
        return []
    key, lines = f'"{rare}"'.encode(), []
    with suppress(OSError), path.open("rb") as file:
        start = max(0, file.seek(0, os.SEEK_END) - num_bytes)
        file.seek(0)
        # Blocks of complete lines: searching them is much faster than parsing their rows.
        while num_left := max(0, start - file.tell()):
            block = file.read(min(BLOCK_BYTES, num_left)) + file.readline()
            if not block:
                break  # The run has shortened the file meanwhile.
            if key in block:
                lines += [line for line in block.splitlines(keepends=True) if key in line]
        lines.append(file.read())
    return [*parse_rows(b"".join(lines).decode(errors="replace"))]


def parse_rows(text: str) -> Iterator[dict[str, Any]]:
    """The rows of a text; skips lines truncated by a crash."""
    for line in text.splitlines():
        try:
            row = json.loads(line, parse_int=integer)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict):
            yield row


def integer(text: str) -> float:
    """A number without a point; a float, maybe infinite, if it has more digits than any of ours."""
    return int(text) if len(text) < MAX_DIGITS else float(text)
