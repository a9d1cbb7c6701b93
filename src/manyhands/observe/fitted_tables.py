"""Tables that fit a terminal: columns without room continue in a table below."""

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

EDGE, GAP = 2, 2  # Columns of the terminal around a table, and after each of its columns.
MAX_CELL = 32
"""Longer texts are wrapped."""
UNLIMITED = 1000  # Columns of a table that is not read on a terminal.


def print_table(names: Sequence[str], rows: Sequence[Sequence[str]], num_keys: int = 1) -> None:
    """Print rows of cells, in several tables if the terminal is narrow."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = UNLIMITED
    for table in fitted_tables(names, rows, console.width, num_keys):
        console.print(table)


def fitted_tables(
    names: Sequence[str], rows: Sequence[Sequence[str]], width: int, num_keys: int = 1
) -> list[Table]:
    """Tables that have all columns; each begins with the first ones, which tell rows apart."""
    columns = list(zip(names, *rows, strict=True))
    sizes = [min(max(map(len, cells)), MAX_CELL) for cells in columns]
    keys = [*range(num_keys)]
    groups: list[list[int]] = []
    for place in range(num_keys, len(columns)):
        around = [*keys, *(groups[-1] if groups else []), place]
        if groups and sum(sizes[each] + GAP for each in around) + EDGE <= width:
            groups[-1].append(place)
        else:
            groups.append([place])
    return [_table(columns, [*keys, *group]) for group in groups or [[]]]


def _table(columns: Sequence[Sequence[str]], places: Sequence[int]) -> Table:
    shown = [columns[place] for place in places]
    headers = (Column(name, max_width=MAX_CELL, overflow="fold") for name, *_ in shown)
    table = Table(*headers, box=SIMPLE_HEAD, collapse_padding=True)
    for cells in zip(*(cells for _, *cells in shown), strict=True):
        table.add_row(*map(Text, cells))
    return table
