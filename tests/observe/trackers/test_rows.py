"""Rows of a file that grows, is amended and truncated by the run that writes it."""

from manyhands.observe.jsonl import UNFINISHED, JsonLines, append_text
from manyhands.observe.trackers.rows import RowFile


def steps(rows):
    return [row["step"] for row in rows]


def test_each_row_is_read_once_and_a_file_that_does_not_exist_has_none(tmp_path):
    path = tmp_path / "metrics.jsonl"
    rows = RowFile(path)
    assert steps(rows.read()) == []
    written = JsonLines(path, 0)
    written.append({"step": 1})
    assert steps(rows.read()) == [1]
    written.append({"step": 2})
    written.append({"step": 3})
    assert steps(rows.read()) == [2, 3]
    assert steps(rows.read()) == []


def test_all_rows_are_read_again_after_one_was_amended_or_dropped(tmp_path):
    path = tmp_path / "metrics.jsonl"
    rows, written = RowFile(path), JsonLines(path, 0)
    for step in (1, 2, 3):
        written.append({"step": step})
    assert steps(rows.read()) == [1, 2, 3]
    for number in range(4):  # Inodes of replaced files are used again.
        written.amend(1, {"held_out_loss": number})
        assert [row.get("held_out_loss") for row in rows.read()] == [number, None, None]
    written.keep_until(2)
    assert steps(rows.read()) == [1, 2]


def test_a_row_that_is_being_written_waits_and_an_unfinished_one_is_skipped(tmp_path):
    path = tmp_path / "metrics.jsonl"
    rows, written = RowFile(path), JsonLines(path, 0)
    append_text(path, '{"step": 1, "lo')
    assert steps(rows.read()) == []
    append_text(path, 'ss": 0.5}\n')
    assert [*rows.read()] == [{"step": 1, "loss": 0.5}]
    written.append({"step": 2, UNFINISHED: True})
    written.append({"step": 3})
    assert steps(rows.read()) == [3]
