"""`manyhands bench` as users run it."""

import pytest

from manyhands.cli.main import run_guarded
from manyhands_bench.main import KNOWN, bench_command, find_bench


def test_what_is_unknown_is_told_with_what_is_known(capsys):
    assert run_guarded(bench_command, ["lodaer"]) == 2
    told = capsys.readouterr().err
    assert "bench lodaer is unknown" in told and "bench loader, bench step" in told


@pytest.mark.parametrize("arguments", [["--help"], *([name, "--help"] for name in KNOWN)])
def test_help_is_an_answer(arguments, capsys):
    assert run_guarded(bench_command, arguments) == 0
    assert f"manyhands bench {arguments[0].strip('-')}"[:16] in capsys.readouterr().out


def test_a_bare_word_asks_for_more(capsys):
    assert bench_command([]) == 2
    assert all(f"manyhands bench {name}" in capsys.readouterr().out for name in KNOWN[:1])


def test_all_known_are_found():
    assert all(map(find_bench, KNOWN)) and find_bench("nothing") is None
