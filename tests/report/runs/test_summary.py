"""Several runs in one table."""

from pathlib import Path

from page_runs import write_evaluation, write_run

from manyhands.report.runs.run_files import read_run_files
from manyhands.report.runs.summary import summary_table


def test_runs_stand_side_by_side_with_what_is_known_of_them(tmp_path: Path) -> None:
    write_run(tmp_path / "a")
    (tmp_path / "b").mkdir()
    table = summary_table([read_run_files(tmp_path / name, name) for name in ("a", "b")])
    titles = [column.title for column in table.columns]
    first, second = (dict(zip(titles, row.cells, strict=True)) for row in table.rows)
    assert first["run"] == "a" and first["policy and dataset"] == "ACT on pusht"
    assert (first["steps"], first["success"], first["ending"]) == ("400", "50%", "finished")
    assert second == dict.fromkeys(titles, "") | {"run": "b"}


def test_a_run_that_was_evaluated_afterwards_has_its_success_too(tmp_path: Path) -> None:
    write_run(tmp_path / "a")
    (tmp_path / "b").mkdir()
    write_evaluation(tmp_path / "b" / "eval", [True, True, True, False])
    table = summary_table([read_run_files(tmp_path / name, name) for name in ("a", "b")])
    place = [column.title for column in table.columns].index("success")
    assert [row.cells[place] for row in table.rows] == ["50%", "75%"]
