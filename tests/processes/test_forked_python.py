"""Programs that are forked behave like those of a new interpreter."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("forked_programs.py")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What programs print that are started by a process that forks them."""
    folder = tmp_path_factory.mktemp("programs")
    # An option of the interpreter: the process that is asked is not forked itself.
    command = [sys.executable, "-X", "faulthandler", str(PROGRAM)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_program_finds_what_it_would_find_in_a_new_interpreter(found):
    forked, new = map(json.loads, found["surroundings"])
    assert (forked.pop("is_imported"), new.pop("is_imported")) == (True, False)
    assert forked == new
    assert (new["given"], new["greeting"], new["is_session"]) == ("hello", "hi", True)


def test_scripts_modules_texts_and_commands_are_run(found):
    names = ["manyhands:", "torchrun"]
    assert found["kinds"] == ["['-c', 'x']", "manyhands:", "manyhands:", "['a b']", *names]


def test_exits_and_signals_are_those_of_the_program(found):
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGKILL)
    assert found["exits"] == ["5", "1", str(-signal.SIGABRT), *(str(-each) for each in numbers)]


def test_a_program_is_a_child_of_the_one_that_starts_it_and_so_are_those_it_starts(found):
    itself, parent, child, grandparent = found["parents"]
    assert (parent, grandparent) == (itself, child)


def test_processes_of_multiprocessing_are_children_that_are_forked_too(found):
    ends = [str(["a", method, 0]) for method in ("spawn", "forkserver")]
    assert found["spawned"] == [*ends, str([True, True])]


def test_what_is_to_run_last_runs_once(found):
    assert found["endings"] == ["now", "the end"]


def test_open_files_are_passed_under_their_numbers(found):
    given, seen = found["passed"]
    assert given == seen


def test_what_only_a_new_interpreter_can_do_is_left_to_one(found):
    assert found["left"] == ["False"] * 3


@pytest.mark.skipif(os.environ.get("MANYHANDS_FORK_TESTS") != "1", reason="nothing is forked here")
@pytest.mark.parametrize("is_new", [False, pytest.param(True, marks=pytest.mark.new_interpreter)])
def test_tests_fork_unless_they_ask_for_a_new_interpreter(is_new):
    text = "import sys; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert done.stdout.strip() == str(not is_new)


@pytest.mark.skipif(os.environ.get("MANYHANDS_FORK_TESTS") != "1", reason="nothing is forked here")
def test_programs_of_a_program_of_a_test_are_forked_too():
    inner = "import sys; print('torch' in sys.modules)"
    outer = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}], check=True)"
    done = subprocess.run([sys.executable, "-c", outer], capture_output=True, text=True)
    assert done.stdout.strip() == "True", done.stderr
