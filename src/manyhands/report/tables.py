"""Tables of a page."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Column:
    """The head of a column; numbers stand at its right."""

    title: str
    is_number: bool = False


@dataclass(frozen=True)
class TableRow:
    """Texts under the columns; a marked row catches the eye."""

    cells: Sequence[str]
    is_marked: bool = False


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows under a title, and a sentence about them."""

    title: str = ""
    columns: Sequence[Column]
    rows: Sequence[TableRow]
    note: str = ""
