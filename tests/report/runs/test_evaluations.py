"""Evaluations are found where training and `manyhands eval` leave them."""

import json
from pathlib import Path

import pytest
from page_runs import write_evaluation

from manyhands.report.facts import Tile
from manyhands.report.runs.evaluations import (
    files_named,
    find_evaluations,
    is_step,
    result_rows,
    success_tile,
)

ROW = {"episode_ix": 0, "seed": 1, "success": True, "sum_reward": 1.0, "max_reward": 1.0}


def test_evaluations_are_found_and_labeled_the_latest_first(tmp_path: Path) -> None:
    write_evaluation(tmp_path / "eval" / "9", [False])
    write_evaluation(tmp_path / "eval" / "20000", [True])
    write_evaluation(tmp_path / "by hand", [True, False])
    found = find_evaluations(tmp_path)
    assert [each.label for each in found] == ["by hand", "step 20,000", "step 9"]
    assert find_evaluations(tmp_path, "a, ")[2].label == "a, step 9"
    (alone,) = find_evaluations(tmp_path / "by hand")
    assert alone.label == "this folder"


def test_a_row_has_the_score_of_its_episodes(tmp_path: Path) -> None:
    write_evaluation(tmp_path / "eval" / "5", [True] * 3 + [False])
    (row,) = result_rows(find_evaluations(tmp_path))
    assert (row["success"], row["num_episodes"], row["width"]) == ("75.0%", "4", "75.0")
    assert row["interval"] == "30.1% to 95.4%"
    assert (row["reward"], row["length"]) == ("0.75", "31.5")
    assert success_tile(find_evaluations(tmp_path)[0]) == Tile(
        "success", "75%", "30% to 95%, step 5"
    )


@pytest.mark.parametrize(
    "content",
    [
        *("", "{", "[]", '{"episodes": []}', '{"episodes": [{"seed": Infinity}]}', "[" * 100_000),
        json.dumps({"episodes": [{**ROW, "length": 10**400}]}),
        json.dumps({"episodes": [{**ROW, "seed": -1}]}),
    ],
)
def test_damaged_results_are_skipped(tmp_path: Path, content: str) -> None:
    write_evaluation(tmp_path / "eval" / "5", [True])
    (tmp_path / "eval" / "6").mkdir()
    (tmp_path / "eval" / "6" / "eval_info.json").write_text(content)
    assert [each.label for each in find_evaluations(tmp_path)] == ["step 5"]


def test_neither_checkpoints_nor_links_are_searched(tmp_path: Path) -> None:
    run = tmp_path / "run"
    write_evaluation(run / "checkpoints" / "5", [True])
    write_evaluation(tmp_path / "outside", [True])
    (run / "link").symlink_to(tmp_path)
    assert files_named(run, "eval_info.json") == []


@pytest.mark.parametrize(
    ("name", "is_one"), [("60", True), ("٣", False), ("x", False), ("", False)]
)
def test_only_plain_numbers_are_steps(name: str, is_one: bool) -> None:
    assert is_step(name) == is_one
