"""A CSV table with a row per frame, whose episodes are found without reading the rows before."""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO

from manyhands.errors import DatasetError

EPISODE_COLUMNS = ("episode", "episode_index", "episode_id")
_MARK = "\ufeff"  # Spreadsheets begin UTF-8 files with it

Row = dict[str, str]


@dataclass(frozen=True)
class Place:
    """A position in a table."""

    offset: int
    line: int


@dataclass(frozen=True)
class CsvEpisode:
    """Consecutive rows of a table."""

    file: Path
    start: Place
    num_rows: int

    def rows(self) -> Iterator[tuple[int, Row]]:
        """Yield the line and the values of each row."""
        for place, row in islice(_rows(self.file, self.start), self.num_rows):
            yield place.line, row


def csv_episodes(file: Path) -> list[CsvEpisode]:
    """The episodes of a table: runs of equal values in its episode column, or all of it."""
    starts: list[tuple[Place, int]] = []
    seen: list[str] = []
    number = -1
    for number, (place, row) in enumerate(_rows(file)):
        episode = next((row[name] for name in EPISODE_COLUMNS if name in row), "")
        if seen and episode == seen[-1]:
            continue
        if episode in seen:
            raise DatasetError(f"{file}, line {place.line}: episode {episode} begins again")
        seen.append(episode)
        starts.append((place, number))
    if not starts:
        raise DatasetError(f"{file} has no rows")
    ends = [*(first for _, first in starts[1:]), number + 1]
    return [
        CsvEpisode(file, place, end - first)
        for (place, first), end in zip(starts, ends, strict=True)
    ]


def _rows(file: Path, start: Place | None = None) -> Iterator[tuple[Place, Row]]:
    try:
        with file.open("rb") as stream:
            yield from _parsed(file, stream, start)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DatasetError(f"{file} cannot be read as CSV: {error}") from None


def _parsed(file: Path, stream: IO[bytes], start: Place | None) -> Iterator[tuple[Place, Row]]:
    lines = (line.decode("utf-8") for line in stream)
    reader = csv.reader(lines, strict=True)
    header = [name.strip().removeprefix(_MARK) for name in next(reader, [])]
    first_line = 2
    if start is not None:
        stream.seek(start.offset)
        first_line = start.line
    skipped = reader.line_num
    while True:
        # The reader takes one line after the other, never more than a row needs.
        place = Place(stream.tell(), first_line + reader.line_num - skipped)
        values = next(reader, None)
        if values is None:
            return
        if len(values) != len(header):
            raise DatasetError(
                f"{file}, line {place.line}: {len(values)} values, but the first line has "
                f"{len(header)} names"
            )
        yield place, dict(zip(header, values, strict=True))
