"""What all commands do alike."""

import json
import math
from dataclasses import dataclass
from pathlib import Path

import pytest

from manyhands.cli.flags import read_config, split_names, write_results
from manyhands.errors import ConfigError, HelpShown


@dataclass(frozen=True, kw_only=True)
class Config:
    """Example."""

    number: int = 1
    """A number."""
    json: Path | None = None
    """A file."""

    def faults(self) -> list[str]:
        return ["--number must be odd"] if self.number % 2 == 0 else []


def test_flags_become_a_config():
    assert read_config(Config, "usage", ["--number=3"]) == Config(number=3)


@pytest.mark.parametrize("flag", ["--number=2", "--nmber=3", "--number=x", "--print_config"])
def test_every_fault_is_told(flag):
    with pytest.raises(ConfigError):
        read_config(Config, "usage", [flag])


def test_help_lists_the_flags(capsys):
    with pytest.raises(HelpShown):
        read_config(Config, "how to use it", ["--help"])
    printed = capsys.readouterr().out
    assert "how to use it" in printed and "--number" in printed


def test_results_go_to_the_file_that_is_named(tmp_path):
    write_results(tmp_path / "a.json", {"rate": 2.5})
    write_results(None, {"rate": 2.5})
    assert json.loads((tmp_path / "a.json").read_text()) == {"rate": 2.5}
    write_results(tmp_path / "a.json", [{"loss": math.nan, "times": (1, math.inf)}])
    assert json.loads((tmp_path / "a.json").read_text()) == [{"loss": None, "times": [1, None]}]
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_a_name_may_follow_a_switch():
    switches = ["--all"]
    assert split_names(["--all", "a"], switches) == (["a"], ["--all"])
    assert split_names(["--all", "False", "a"], switches) == (["a"], ["--all", "False"])
    assert split_names(["--json", "a"], switches) == ([], ["--json", "a"])


@pytest.mark.parametrize(
    ("arguments", "names", "flags"),
    [
        ([], [], []),
        (["a", "--output=x", "b"], ["a", "b"], ["--output=x"]),
        (["--output", "x", "a"], ["a"], ["--output", "x"]),
        (["output=x", "runs/lr=1"], ["runs/lr=1"], ["output=x"]),
        (["-h", "a" * 5000], ["a" * 5000], ["-h"]),
    ],
)
def test_names_are_told_from_flags(arguments, names, flags):
    assert split_names(arguments) == (names, flags)
