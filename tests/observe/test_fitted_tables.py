"""Tables that fit a terminal."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from manyhands.observe.fitted_tables import UNLIMITED, fitted_tables, print_table

NAMES = ("run", "state", "step", "loss", "samples/s", "time left")
CELLS = st.text("ab0.", min_size=1, max_size=20)


def shown(tables, width: int) -> list[str]:
    file = io.StringIO()
    console = Console(file=file, width=width)
    for table in tables:
        console.print(table)
    return file.getvalue().splitlines()


@given(rows=st.lists(st.tuples(*[CELLS] * len(NAMES)), min_size=1), width=st.integers(50, 200))
def test_every_cell_is_whole_and_every_line_fits(rows, width):
    lines = shown(fitted_tables(NAMES, rows, width), width)
    words = " ".join(lines).split()
    for row in rows:
        assert {*row} <= {*words}
    assert all(len(line) <= width for line in lines)
    assert "…" not in "".join(lines)


def test_a_wide_table_continues_below_with_its_first_columns():
    rows = [["pick", "running", "1", "0.5", "80", "3 h"]]
    assert len(fitted_tables(NAMES, rows, 80)) == 1
    first, second = fitted_tables(NAMES, rows, 40)
    assert [each.header for each in first.columns][:2] == ["run", "state"]
    assert next(each.header for each in second.columns) == "run"


def test_a_long_text_is_wrapped_between_words():
    state = "quit without saving: resume continues from step 534"
    lines = shown(fitted_tables(("run", "state"), [["pick", state]], 60), 60)
    assert "pick  quit without saving: resume" in "\n".join(lines)
    assert "continues from step 534" in "\n".join(lines)


def test_brackets_are_text():
    assert "run[b]" in "".join(shown(fitted_tables(("run",), [["run[b]"]], 60), 60))


def test_what_is_no_terminal_has_no_width(capsys):
    print_table(NAMES, [["x" * 30] * len(NAMES)])
    (line,) = (line for line in capsys.readouterr().out.splitlines() if "x" in line)
    assert 180 < len(line.rstrip()) < UNLIMITED


@pytest.mark.parametrize("num_keys", [1, 2])
def test_a_table_of_keys_alone_is_shown(num_keys):
    (table,) = fitted_tables(NAMES[:num_keys], [["a"] * num_keys], 60, num_keys)
    assert len(table.columns) == num_keys
