"""Rows survive crashes and resumes."""

import errno
import json
from pathlib import Path
from typing import Any

import pytest

from manyhands.observe import jsonl
from manyhands.observe.jsonl import UNFINISHED, JsonLines, read_last_rows, read_rows


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


def write_rows(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_only_the_end_of_a_long_file_is_read(tmp_path: Path):
    rows = [{"step": step} for step in range(500)]
    found = read_last_rows(write_rows(tmp_path / "rows.jsonl", rows), 1000, "rare")
    assert found == rows[-len(found) :] and 50 < len(found) < 100


@pytest.mark.parametrize("block_bytes", [1, 500, 1 << 20])
def test_rows_with_a_rare_metric_are_read_wherever_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block_bytes: int
):
    monkeypatch.setattr(jsonl, "BLOCK_BYTES", block_bytes)
    rows = [{"step": step, "rare" if step % 50 == 7 else "loss": 1} for step in range(500)]
    found = read_last_rows(write_rows(tmp_path / "rows.jsonl", rows), 1000, "rare")
    assert [row["step"] for row in found if "rare" in row] == [*range(7, 500, 50)]
    assert found[-30:] == rows[-30:] and len(found) < 100


def test_a_short_or_missing_file_is_read_completely(tmp_path: Path):
    rows = [{"step": 1}, {"step": 2}]
    assert read_last_rows(write_rows(tmp_path / "rows.jsonl", rows), 1000, "rare") == rows
    assert read_last_rows(tmp_path / "missing.jsonl", 1000, "rare") == []


def test_numbers_of_a_damaged_row_fit_a_float(tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"step": 1' + "0" * 400 + "}\n" + '{"step": 12}\n')
    first, second = read_rows(tmp_path / "rows.jsonl")
    assert float(first["step"]) == float("inf")
    assert second == {"step": 12} and isinstance(second["step"], int)
