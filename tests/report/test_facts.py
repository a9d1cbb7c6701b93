"""Facts read the way people write them."""

import subprocess
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from manyhands.report.facts import command_line, fact, fact_groups, fact_tables

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
    first, second = fact_groups({**run, "command": ["x"], "ending": "finished", "empty": {}})
    assert (first.title, first.facts) == ("Run", [("precision", "bf16")])
    assert (second.title, second.facts) == ("Batch", [("per process", "8"), ("effective", "64")])


def test_deeper_values_carry_their_parents_name() -> None:
    (group,) = fact_groups({"hardware": {"gpu": {"memory_bytes": 1024, "name": "H200"}}})
    assert group.facts == [("gpu memory", "1.0 KiB"), ("gpu name", "H200")]


def test_a_list_of_dictionaries_is_a_table_with_every_column() -> None:
    (table,) = fact_tables({"ranks": [{"rank": 0, "host": "a"}, {"rank": 1, "device": "cuda:1"}]})
    assert (table.title, table.columns) == ("Ranks", ["rank", "host", "device"])
    assert table.rows == [["0", "a", ""], ["1", "", "cuda:1"]]


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


def test_a_run_that_does_not_say_its_command_has_none() -> None:
    assert command_line({}) == command_line({"command": None}) == ""


@given(run=st.dictionaries(st.text(), JSON, max_size=6))
def test_whatever_a_run_says_can_be_told(run: dict[str, Any]) -> None:
    texts = [text for group in fact_groups(run) for pair in group.facts for text in pair]
    texts += [cell for table in fact_tables(run) for row in table.rows for cell in row]
    assert all(isinstance(text, str) for text in texts) and isinstance(command_line(run), str)
