"""Rows survive crashes and resumes."""

import errno
from pathlib import Path

from manyhands.observe.jsonl import UNFINISHED, JsonLines, read_rows


def test_a_resumed_file_keeps_rows_up_to_its_step_only(tmp_path: Path):
    path = tmp_path / "sub" / "rows.jsonl"
    rows = JsonLines(path, 0)
    for step in range(1, 6):
        rows.append({"step": step})
    JsonLines(path, 3).append({"step": 4, "again": True})
    assert list(read_rows(path)) == [
        *({"step": step} for step in (1, 2, 3)),
        {"step": 4, "again": True},
    ]


def test_rows_after_a_step_can_be_dropped_on_the_way(tmp_path: Path):
    rows = JsonLines(tmp_path / "rows.jsonl", 0)
    rows.keep_until(3)
    for step in (1, 2, 3):
        rows.append({"step": step})
    rows.keep_until(2)
    rows.append({"step": 3, "again": True})
    assert [row["step"] for row in read_rows(tmp_path / "rows.jsonl")] == [1, 2, 3]


def test_the_row_of_a_step_can_be_added_to(tmp_path: Path):
    path = tmp_path / "rows.jsonl"
    rows = JsonLines(path, 0)
    assert rows.last() == {}
    for step in (1, 2):
        rows.append({"step": step})
    rows.amend(2, {"late": True})
    assert list(read_rows(path)) == [{"step": 1}, {"step": 2, "late": True}]
    assert rows.last() == {"step": 2, "late": True}
    rows.amend(1, {"later": True})
    rows.amend(3, {"never": True})
    assert list(read_rows(path)) == [{"step": 1, "later": True}, {"step": 2, "late": True}]


def test_a_torn_line_is_left_out(tmp_path: Path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"step": 1}\n{"step": 2, "lo')
    assert list(read_rows(path)) == [{"step": 1}]


def test_numbers_keep_full_precision(tmp_path: Path):
    path = tmp_path / "rows.jsonl"
    JsonLines(path, 0).append({"loss": 0.1 + 0.2})
    assert next(read_rows(path))["loss"] == 0.1 + 0.2


def test_rows_wait_while_the_disk_is_full(tmp_path: Path, small_files):
    path = tmp_path / "rows.jsonl"
    rows = JsonLines(path, 0)
    rows.append({"step": 1})
    with small_files(path.stat().st_size + 5):
        rows.append({"step": 2})
        rows.append({"step": 3})
        assert rows.fault is not None
        assert rows.fault.errno == errno.EFBIG
        assert path.read_text() == '{"step": 1}\n'
        assert rows.last() == {"step": 3}
    rows.append({"step": 4})
    assert rows.fault is None
    assert [row["step"] for row in read_rows(path)] == [1, 2, 3, 4]


def test_a_resumed_file_drops_the_row_of_a_request_to_stop(tmp_path: Path):
    path = tmp_path / "rows.jsonl"
    rows = JsonLines(path, 0)
    rows.append({"step": 10})
    rows.append({"step": 15, UNFINISHED: True})
    JsonLines(path, 15).append({"step": 20})
    assert [row["step"] for row in read_rows(path)] == [10, 20]


def test_several_rows_are_appended_at_once(tmp_path):
    file = JsonLines(tmp_path / "rows.jsonl", 0)
    file.append({"step": 1, "rank": 0}, {"step": 1, "rank": 1})
    file.append()
    assert [row["rank"] for row in read_rows(tmp_path / "rows.jsonl")] == [0, 1]
