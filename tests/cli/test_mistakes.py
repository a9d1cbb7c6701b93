"""Mistakes of new users: each gets its message, and the advice in the message works.

`mistakes.txt` is the table: a command, its answer, and the command that follows from the answer.
`> ` is derived from the answer, to the letter; `>> ` is what a reader makes of it; `>>> ` is the
same, and needs a network.
"""

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from forked_commands import LONG
from mistakes_folder import make_folder
from remedies import ANOTHER, follow

TABLE = Path(__file__).with_name("mistakes.txt")
PROGRAM = Path(__file__).with_name("forked_commands.py")
MAX_BY_HAND = 25
STOPPED = -signal.SIGALRM
WRITTEN = [*ANOTHER.values(), "outputs", "train.sbatch", "train.k8s.yaml"]
"""Paths that the commands which follow from answers write."""


@dataclass
class Mistake:
    """A command, its answer, and what follows from it."""

    typed: str
    said: list[str] = field(default_factory=list)
    fixed: str = ""
    is_derived: bool = True
    runs_here: bool = True


def read_table() -> list[Mistake]:
    """The mistakes in the table."""
    found: list[Mistake] = []
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        if line.startswith("$ "):
            found.append(Mistake(line[2:]))
        elif line.startswith(">"):
            found[-1].is_derived = not line.startswith(">>")
            found[-1].runs_here = not line.startswith(">>>")
            found[-1].fixed = line.lstrip("> ")
        elif line and not line.startswith("#"):
            found[-1].said.append(line)
    return found


class Commands:
    """Runs commands in a folder, without paths that earlier ones may have written."""

    def __init__(self, program: subprocess.Popen[str], folder: Path) -> None:
        self._program = program
        self.folder = folder
        self._worked: set[str] = set()

    def run(self, command: str) -> tuple[int, str]:
        """The exit code, and what was printed."""
        assert self._program.stdin is not None and self._program.stdout is not None
        case = {"folder": str(self.folder), "words": shlex.split(command), "removed": WRITTEN}
        self._program.stdin.write(f"{json.dumps(case)}\n")
        self._program.stdin.flush()
        code, text = json.loads(self._program.stdout.readline())
        return code, text.replace(f"{self.folder}/", "")

    def check(self, fixed: str) -> None:
        """Check that a command works, once."""
        if fixed not in self._worked:
            code, text = self.run(cheap(fixed))
            expected = STOPPED if shlex.split(fixed)[1] in LONG else 0
            assert code == expected, f"{fixed}\n{text}"
            self._worked.add(fixed)


def message(text: str) -> list[str]:
    """The lines of an error, without those about the start of a run."""
    lines = [line.removeprefix("manyhands: ") for line in text.splitlines()]
    return [line for line in lines if " s  " not in line[:12]]


def cheap(command: str) -> str:
    """A command that stops once nothing is wrong."""
    words = shlex.split(command)
    at_start = words[:2] == ["manyhands", "train"] and "--steps=1" not in words
    return f"{command} --print_config" if at_start and "--print_config" not in words else command


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory, tiny_dataset: Path) -> Iterator[Commands]:
    """Commands in a user's folder, which has a finished run."""
    here = tmp_path_factory.mktemp("mistakes") / "here"
    make_folder(here, tiny_dataset)
    environ = os.environ | {"OMP_NUM_THREADS": "1", "HF_LEROBOT_HOME": "hub", "HF_HUB_CACHE": "hub"}
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    program = [sys.executable, str(PROGRAM)]
    with subprocess.Popen(program, text=True, env=environ, **streams) as process:
        commands = Commands(process, here)
        code, text = commands.run("manyhands train --config=run.yaml --output_dir=runs/pick")
        assert code == 0, text
        yield commands
        process.communicate()


MISTAKES = read_table()


@pytest.mark.process
@pytest.mark.parametrize("mistake", MISTAKES, ids=[each.typed for each in MISTAKES])
def test_a_mistake_has_its_message_and_the_advice_in_it_works(
    commands: Commands, mistake: Mistake
) -> None:
    code, text = commands.run(mistake.typed)
    assert "Traceback" not in text
    assert (code, message(text)) == (2, mistake.said)
    if mistake.is_derived:
        told = "\n".join(mistake.said)
        assert follow(mistake.typed, told, commands.folder) == mistake.fixed
    if mistake.runs_here:
        commands.check(mistake.fixed)


def test_the_table_is_long_and_nearly_all_advice_is_followed_to_the_letter() -> None:
    assert len(MISTAKES) >= 60
    assert sum(not each.is_derived for each in MISTAKES) <= MAX_BY_HAND
