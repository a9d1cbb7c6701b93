"""Scripts that another Python runs."""

import sys
from pathlib import Path

import pytest

from manyhands.errors import UserError
from manyhands_bench.lerobot import ask_lerobot


def ask(python: Path):
    return ask_lerobot(python, "manyhands_bench.step", "step", {}, 60)


def python_that(folder: Path, does: str) -> Path:
    """Something that is started like a Python."""
    script = folder / "python"
    script.write_text(f"#!/bin/sh\n{does}\n")
    script.chmod(0o755)
    return script


def test_the_last_line_is_the_answer(tmp_path):
    assert ask(python_that(tmp_path, """echo welcome; echo '{"value": 3}'""")) == {"value": 3}


def test_the_last_complaint_is_told(tmp_path):
    python = python_that(tmp_path, "echo first >&2; echo 'no such thing' >&2; exit 1")
    with pytest.raises(UserError, match=r"LeRobot's step failed: no such thing"):
        ask(python)


def test_silence_is_no_answer(tmp_path):
    with pytest.raises(UserError, match="it printed nothing"):
        ask(python_that(tmp_path, "exit 0"))


def test_a_request_without_a_policy_fails_in_words():
    with pytest.raises(UserError, match="LeRobot's step failed: KeyError"):
        ask(Path(sys.executable))
