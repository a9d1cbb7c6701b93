"""JSON-lines files that continue where a run resumes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from manyhands.atomic import whole_file


class RowFile:
    """One JSON object a line; rows of updates that a resumed run makes again are dropped."""

    def __init__(self, path: Path, step: int) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self.keep_until(step)

    def append(self, row: dict[str, Any]) -> None:
        """Add a row at once, so that a crash loses none."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")

    def last(self) -> dict[str, Any]:
        """The row that was added last; empty where there is none."""
        rows = list(read_rows(self._path)) if self._path.exists() else []
        return rows[-1] if rows else {}

    def amend(self, values: dict[str, Any]) -> None:
        """Add values to the row that was added last."""
        *rows, last = read_rows(self._path)
        self._write([*rows, last | values])

    def keep_until(self, step: int) -> None:
        """Drop the rows of updates after a step."""
        if not self._path.exists():
            return
        self._write([row for row in read_rows(self._path) if row.get("step", 0) <= step])

    def _write(self, rows: list[dict[str, Any]]) -> None:
        with whole_file(self._path) as scratch:
            scratch.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a file; a line torn by a crash is left out."""
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict):
            yield row
