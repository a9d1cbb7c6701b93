"""Lines that fit a terminal."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyhands.observe.wrapping import print_wrapped, terminal_width, wrapped

NOTE = "Effective batch: 4 per process x 1 processes x 1 accumulation = 4 samples per step"
WORDS = st.lists(st.text("ab-/=.", min_size=1, max_size=30), min_size=1, max_size=30)


@given(words=WORDS, width=st.integers(20, 200))
def test_no_word_is_broken_and_none_is_lost(words, width):
    lines = wrapped(" ".join(words), width).split("\n")
    assert " ".join(lines).split() == words
    assert all(len(line) <= width or len(line.split()) == 1 for line in lines)


@pytest.mark.parametrize("width", [60, 80, 100])
def test_a_line_that_continues_another_is_indented(width):
    first, *others = wrapped(NOTE, width).split("\n")
    assert not first.startswith(" ")
    assert all(line.startswith("  ") for line in others)
    assert len(others) == (width < len(NOTE))


def test_lines_can_continue_below_a_column():
    lines = wrapped("  manyhands demo     record, train, score and report on a task", 40, 21)
    first, second, *_ = lines.split("\n")
    assert first.startswith("  manyhands demo     record,")
    assert second[:21].isspace() and second[21] != " "


def test_a_command_stays_in_one_piece():
    command = "/opt/bin/manyhands train --resume='my runs/pick'"
    text = f"stopped on request; continue with: {command}"
    assert wrapped(text, 60).split("\n")[1].strip() == command


def test_only_a_terminal_has_a_width(tmp_path):
    written = io.StringIO()
    print_wrapped(NOTE, written)
    assert written.getvalue() == f"{NOTE}\n"
    assert terminal_width(written) is None
    with (tmp_path / "file").open("w") as file:
        assert terminal_width(file) is None


def test_a_line_on_a_terminal_is_wrapped(terminal_of):
    with terminal_of(60) as terminal:
        assert terminal_width(terminal.file) == 60
        print_wrapped(NOTE, terminal.file)
    assert [len(line) <= 60 for line in terminal.text.splitlines()] == [True, True]
