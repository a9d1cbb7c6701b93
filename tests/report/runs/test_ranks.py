"""Ranks and the one that all others wait for."""

from pathlib import Path

from page_runs import write_ranks

from manyhands.report.metrics import read_rows
from manyhands.report.runs.ranks import MAX_ROWS, rank_table, read_ranks, stragglers


def test_the_rank_that_computes_longest_is_the_straggler(tmp_path: Path) -> None:
    write_ranks(tmp_path, num_ranks=4)
    ranks = read_ranks(read_rows(tmp_path / "ranks.jsonl"))
    assert [rank.number for rank in stragglers(ranks)] == [3]
    table = rank_table(ranks)
    assert [row.is_marked for row in table.rows] == [False, False, False, True]
    assert [column.title for column in table.columns] == [
        "rank",
        "where",
        "step [ms]",
        "communication [ms]",
        "GPU memory [GiB]",
    ]
    assert list(table.rows[3].cells) == ["3", "node0, H200", "100", "1", "8"]
    warm_up = "Means of all rows without the first, which includes warm-up."
    assert table.note.startswith(f"{warm_up} Straggler: 3;")


def test_ranks_that_are_alike_have_no_straggler() -> None:
    rows = [{"rank": rank, "step_s": 0.1 + 0.001 * rank} for rank in range(4)]
    assert stragglers(read_ranks(rows)) == []
    assert stragglers(read_ranks(rows[:1])) == []


def test_of_very_many_ranks_the_slowest_are_shown() -> None:
    ranks = read_ranks([{"rank": rank, "step_s": 1 + rank} for rank in range(1000)])
    table = rank_table(ranks)
    assert [row.cells[0] for row in table.rows] == [
        str(rank) for rank in range(1000 - MAX_ROWS, 1000)
    ]
    assert f"The slowest {MAX_ROWS} of 1,000 ranks." in table.note


def test_a_measure_is_the_mean_of_what_was_logged_after_the_warm_up() -> None:
    (rank,) = read_ranks([{"rank": 0, "step_s": value} for value in (9.0, 0.125, 0.375)])
    assert rank.measures == {"step_s": 0.25}
    (rank,) = read_ranks([{"rank": 0, "step_s": 9.0}])
    assert rank.measures == {"step_s": 9.0}


def test_phases_are_parts_of_a_step_and_a_load_is_a_mean_of_its_samples() -> None:
    usual = {"rank": 0, "step_s": 0.25, "forward_s": 0.25}
    saving = usual | {"step_s": 0.75, "checkpoint_s": 0.5, "gpu_memory_bytes": 8}
    (rank,) = read_ranks([usual, saving, usual, usual, usual])
    assert rank.measures == {
        "step_s": 0.375,
        "forward_s": 0.25,
        "checkpoint_s": 0.125,
        "gpu_memory_bytes": 8,
    }


def test_one_slow_row_makes_no_straggler() -> None:
    rows = [{"rank": rank, "step_s": 0.1} for rank in (0, 1) for _ in range(5)]
    rows[7] = {"rank": 1, "step_s": 9.0}
    assert stragglers(read_ranks(rows)) == []


def test_rows_that_are_no_measurements_are_skipped() -> None:
    rows = [{}, {"rank": "0"}, {"rank": -1}, {"rank": float("nan")}, {"rank": 10**400}]
    assert read_ranks(rows) == []
    (rank,) = read_ranks([{"rank": 0, "step_s": float("inf"), "host": None}])
    assert (rank.measures, rank.place, rank.busy_s) == ({}, "", None)
