"""The command line of a program, from within it."""

import subprocess
import sys
from pathlib import Path

import pytest

from manyhands.errors import EnvironmentFault
from manyhands.launch.script import script_command

PROGRAM = """
import subprocess, sys
from manyhands.launch.script import script_command
if "again" in sys.argv:
    print("again", sys.argv[1:])
else:
    sys.argv.append("not part of the command")
    subprocess.run([*script_command(), "again"], check=True)
"""


@pytest.mark.new_interpreter
@pytest.mark.parametrize("form", ["file", "module", "text"])
def test_a_program_can_start_itself_again(tmp_path: Path, form: str) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    start = {"file": ["program.py"], "module": ["-m", "program"], "text": ["-c", PROGRAM]}[form]
    command = [sys.executable, *start, "--flag=a b"]
    done = subprocess.run(
        command, cwd=tmp_path, stdout=subprocess.PIPE, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "again ['--flag=a b', 'again']"


def test_an_interactive_session_has_no_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(sys.modules["__main__"], "__file__", raising=False)
    monkeypatch.setattr(sys, "orig_argv", ["python"])
    with pytest.raises(EnvironmentFault, match=r"--launch\.num_processes=1"):
        script_command()
