"""wandb's own files, as wandb writes them."""

import pytest

pytest.importorskip("wandb", reason="pip install 'manyhands[track]'")

from manyhands.observe.trackers.wandb_file import (
    drop_incomplete_records,
    read_history,
    read_records,
    run_files,
)

NUM_ROWS = 300
LOG = """
import pickle, sys
import wandb
folder, first, last = pickle.load(sys.stdin.buffer)
settings = wandb.Settings(silent=True, console="off", x_disable_stats=True)
run = wandb.init(id="abc", dir=folder, mode="offline", settings=settings)
for step in range(first, last + 1):
    run.log({"train/loss": 1 / step, "text": "x" * (step % 7) * 40}, step=step)
run.finish()
"""


def test_rows_are_read_back_over_many_blocks_and_up_to_a_truncated_one(tmp_path, in_new_process):
    in_new_process(LOG, (str(tmp_path), 1, NUM_ROWS))
    (file,) = run_files(tmp_path / "wandb", "abc")
    rows = [*read_history(file)]
    assert [row["_step"] for row in rows] == [*range(1, NUM_ROWS + 1)]
    assert [row["train/loss"] for row in rows] == [1 / step for step in range(1, NUM_ROWS + 1)]
    assert file.stat().st_size > 2 * 32 * 1024
    whole = file.read_bytes()
    for num_bytes in (0, 5, 7, 100, 32 * 1024 + 3, len(whole) - 1):
        file.write_bytes(whole[:num_bytes])
        assert [*read_history(file)] == rows[: len([*read_history(file)])]
    file.write_bytes(whole[: 64 * 1024] + bytes(4096))
    assert len([*read_records(file)]) > 0


def test_a_truncated_log_ends_with_its_last_complete_row_and_one_without_rows_goes(
    tmp_path, in_new_process
):
    in_new_process(LOG, (str(tmp_path), 1, NUM_ROWS))
    (file,) = run_files(tmp_path / "wandb", "abc")
    whole, rows = file.read_bytes(), [*read_history(file)]
    for num_bytes in (len(whole), len(whole) - 1, 32 * 1024 + 3, 2000):
        file.write_bytes(whole[:num_bytes])
        before = [*read_history(file)]
        drop_incomplete_records(tmp_path / "wandb", "abc")
        assert [*read_history(file)] == before == rows[: len(before)]
        once = file.read_bytes()
        # Where a record ends, nothing is incomplete; the last byte belongs to a record.
        assert len(once) <= num_bytes and len(once) != len(whole) - 1
        assert (once == whole) == (num_bytes == len(whole))
        drop_incomplete_records(tmp_path / "wandb", "abc")
        assert file.read_bytes() == once == whole[: len(once)]
    file.write_bytes(whole[:7])
    drop_incomplete_records(tmp_path / "wandb", "abc")
    assert run_files(tmp_path / "wandb", "abc") == []


def test_files_of_other_runs_are_not_read(tmp_path):
    for name in ("offline-run-20260102_000000-abc/run-abc", "run-20260101_000000-abc/run-abc"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / f"{name}.wandb").touch()
    (tmp_path / "run-20260101_000000-abcd").mkdir()
    (tmp_path / "run-20260101_000000-abcd/run-abcd.wandb").touch()
    found = [file.parent.name for file in run_files(tmp_path, "abc")]
    assert found == ["run-20260101_000000-abc", "offline-run-20260102_000000-abc"]
