"""Rows survive crashes and resumes."""

from pathlib import Path

from manyhands.observe.rows import RowFile, read_rows


def test_a_resumed_file_keeps_rows_up_to_its_step_only(tmp_path: Path):
    path = tmp_path / "sub" / "rows.jsonl"
    rows = RowFile(path, 0)
    for step in range(1, 6):
        rows.append({"step": step})
    RowFile(path, 3).append({"step": 4, "again": True})
    assert list(read_rows(path)) == [
        *({"step": step} for step in (1, 2, 3)),
        {"step": 4, "again": True},
    ]


def test_a_torn_line_is_left_out(tmp_path: Path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"step": 1}\n{"step": 2, "lo')
    assert list(read_rows(path)) == [{"step": 1}]


def test_numbers_keep_full_precision(tmp_path: Path):
    path = tmp_path / "rows.jsonl"
    RowFile(path, 0).append({"loss": 0.1 + 0.2})
    assert next(read_rows(path))["loss"] == 0.1 + 0.2
