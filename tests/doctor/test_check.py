"""Results of checks for people and for programs."""

import io
import json

import pytest
from rich.console import Console

from manyhands.doctor.check import Check, checks_json, checks_table, is_usable, summary_line

CHECKS = [
    Check("disk", "ok", "30 GiB free"),
    Check("shared [memory]", "warn", "64 MiB", "Start it with --shm-size=8g"),
]
BAD = Check("driver", "fail", "none", "Install it")


@pytest.mark.parametrize("width", [60, 80, 120])
def test_every_check_has_a_row_with_its_remedy(width):
    console = Console(file=io.StringIO(), width=width)
    console.print(checks_table("this machine", [*CHECKS, BAD], width))
    text = console.file.getvalue()
    assert "shared [memory]" in text and "Start it with --shm-size=8g" in text
    assert " ok " in text and " warn " in text and " fail " in text


def test_one_failure_makes_it_unusable():
    assert is_usable(CHECKS) and not is_usable([*CHECKS, BAD])
    assert summary_line([*CHECKS, BAD]) == "3 checks: 1 ok, 1 warn, 1 fail"


def test_a_program_finds_what_it_needs():
    found = json.loads(json.dumps(checks_json([BAD])))
    assert found["is_usable"] is False
    assert found["checks"] == [
        {"name": "driver", "state": "fail", "found": "none", "remedy": "Install it"}
    ]
