"""Facts read the way people write them, and the first numbers a reader sees."""

import math
import subprocess
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from manyhands.report.facts import (
    LONGEST_COMMAND,
    Tile,
    command_line,
    fact,
    fact_groups,
    fact_tables,
    key_numbers,
    run_title,
)
from manyhands.report.metrics import Series

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("wall_s", 245.0, "4 min 05 s"),
        ("ram_bytes", 3 * 2**30, "3.0 GiB"),
        ("data_wait_share", 0.125, "12.5%"),
        ("samples_per_s", 512.25, "512.25"),
        ("num_frames", 25_650, "25,650"),
        ("seed", 1000, "1000"),
        ("is_cached", True, "yes"),
        ("ending", None, "–"),
        ("restarts", [], "–"),
        ("wall_s", float("nan"), "nan"),
        ("size", [96, 96], "96, 96"),
        ("gpus", ["H200", "H200", "A100"], "2 × H200, 1 × A100"),
        ("name", "plain", "plain"),
    ],
)
def test_a_value_is_told_in_the_unit_its_name_ends_in(key: str, value: Any, text: str) -> None:
    assert fact(key, value) == text


def test_single_values_come_first_and_dictionaries_are_groups() -> None:
    run = {
        "batch": {"per_process": 8, "effective": 64},
        "precision": "bf16",
        "ranks": [{"rank": 0}],
    }
    first, second = fact_groups(
        {**run, "command": ["x"], "ending": "finished", "config": {"a": 1}, "empty": {}}
    )
    assert (first.title, first.facts) == ("Run", [("precision", "bf16")])
    assert (second.title, second.facts) == ("Batch", [("per process", "8"), ("effective", "64")])


def test_deeper_values_carry_their_parents_name() -> None:
    (group,) = fact_groups({"hardware": {"gpu": {"memory_bytes": 1024, "name": "H200"}}})
    assert group.facts == [("gpu memory", "1.0 KiB"), ("gpu name", "H200")]


def test_a_list_of_dictionaries_is_a_table_with_every_column() -> None:
    (table,) = fact_tables({"ranks": [{"rank": 0, "host": "a"}, {"rank": 1, "device": "cuda:1"}]})
    assert (table.title, [each.title for each in table.columns]) == (
        "Ranks",
        ["rank", "host", "device"],
    )
    assert [row.cells for row in table.rows] == [["0", "a", ""], ["1", "", "cuda:1"]]


@given(words=st.lists(st.text(st.characters(exclude_characters="\0", codec="utf-8")), min_size=1))
@example(["", "--", "--flag=a b", "\n"])
@settings(max_examples=30)
def test_a_command_pasted_into_a_shell_is_the_command(words: list[str]) -> None:
    script = "printf '%s\\0' " + command_line({"command": words})
    done = subprocess.run(["sh", "-c", script], capture_output=True, check=True, timeout=20)
    assert done.stdout.decode().split("\0")[:-1] == words


def test_a_command_shows_one_flag_per_line() -> None:
    command = ["manyhands", "train", "--steps=5", "--output_dir=my run"]
    assert command_line({"command": command}).splitlines() == [
        "manyhands train \\",
        "    --steps=5 \\",
        "    '--output_dir=my run'",
    ]


def test_facts_without_end_are_cut() -> None:
    run = {
        f"group {number}": {f"{each}": "x" * 9999 for each in range(999)} for number in range(99)
    }
    texts = [text for group in fact_groups(run) for pair in group.facts for text in pair]
    assert sum(map(len, texts)) < 300_000
    assert len(command_line({"command": ["--a=b"] * 100_000})) <= LONGEST_COMMAND


def test_a_run_that_does_not_say_its_command_has_none() -> None:
    assert command_line({}) == command_line({"command": None}) == ""


@given(run=st.dictionaries(st.text(), JSON, max_size=6))
def test_whatever_a_run_says_can_be_told(run: dict[str, Any]) -> None:
    texts = [text for group in fact_groups(run) for pair in group.facts for text in pair]
    texts += [cell for table in fact_tables(run) for row in table.rows for cell in row.cells]
    assert all(isinstance(text, str) for text in texts) and isinstance(command_line(run), str)


def series(*values: float) -> Series:
    return Series(np.arange(1.0, len(values) + 1) * 100, np.array(values))


@pytest.mark.parametrize(
    ("run", "title"),
    [
        ({"policy": {"type": "act"}, "dataset": {"root": "data/pusht"}}, "ACT on pusht"),
        ({"policy": {"type": "mine"}, "dataset": {"repo_id": "me/cups"}}, "mine on cups"),
        ({"dataset": {"root": "data/pusht"}}, "pusht"),
        ({"policy": {"type": "act"}}, "ACT"),
        ({"policy": "act", "dataset": None}, "my_run"),
        ({}, "my_run"),
    ],
)
def test_the_title_names_what_is_known(run: dict[str, Any], title: str) -> None:
    assert run_title(run, "my_run") == title


def test_a_full_run_fills_every_tile() -> None:
    run = {
        "ending": "finished",
        "wall_s": 571.3,
        "policy": {"num_parameters": 51_597_190, "num_trainable": 11_000_000},
        "batch": {"per_process": 8, "processes": 4, "accumulation": 2, "effective": 64}
        | {"steps_per_epoch": 400},
        "budget": {"steps": 1200},
    }
    metrics = {
        "loss": series(2.0, 1.0, 0.5),
        "held_out_loss": series(0.75),
        "eval_success": series(0.5),
        "eval_success_low": series(0.25),
        "eval_success_high": series(0.75),
        "samples_per_s": series(900.0, 1000.0, 1100.0),
        "data_wait_share": series(0.5, 0.1, 0.1),
    }
    assert key_numbers(run, metrics) == [
        Tile("loss", "0.5", "first 2"),
        Tile("held-out loss", "0.75"),
        Tile("success", "50%", "25% to 75%"),
        Tile("steps", "300", "of 1,200"),
        Tile("time", "9 min 31 s"),
        Tile("samples/s", "1,000", "median; 10% waiting for data"),
        Tile("samples/step", "64", "= 8 × 4 × 2"),
        Tile("parameters", "51.6M", "11.0M trained"),
    ]


@pytest.mark.parametrize(
    "run",
    [
        {},
        {"wall_s": None, "batch": [], "policy": "act"},
        {"wall_s": float("nan"), "batch": {}},
        {"batch": {"effective": "64"}, "policy": {"num_parameters": -1}},
    ],
)
def test_what_is_not_known_has_no_tile(run: dict[str, Any]) -> None:
    assert key_numbers(run, {}) == []


def test_the_time_of_a_run_without_an_ending_is_a_lower_bound() -> None:
    assert key_numbers({"wall_s": 61.0, "ending": None}, {}) == [
        Tile("time", "1 min 01 s", "at least")
    ]


@pytest.mark.parametrize(
    ("values", "tile"),
    [
        ((2.0, 0.5, math.nan), Tile("loss", "NaN", "first 2")),
        ((2.0, math.nan, math.inf), Tile("loss", "Inf", "first 2")),
        ((2.0, 1e35), Tile("loss", "1e35", "first 2")),
        ((math.nan, 0.5), Tile("loss", "0.5", "first NaN")),
        ((math.nan,), Tile("loss", "NaN")),
    ],
)
def test_the_loss_is_the_last_one_logged_also_after_divergence(
    values: tuple[float, ...], tile: Tile
) -> None:
    steps = Tile("steps", f"{100 * len(values)}", "of 900")
    assert key_numbers({"budget": {"steps": 900}}, {"loss": series(*values)}) == [tile, steps]


def test_a_batch_that_does_not_divide_is_no_product() -> None:
    batch = {"per_process": 2, "processes": 3, "accumulation": 2, "effective": 7, "is_even": False}
    assert key_numbers({"batch": batch}, {}) == [Tile("samples/step", "7", "")]
