"""Commands that run as printed."""

import subprocess
import sys
from pathlib import Path

import pytest

from manyhands.launch.program import program, resume_command

OWN = Path(sys.executable).with_name("manyhands")


def test_a_command_on_the_path_is_called_by_its_name(monkeypatch):
    monkeypatch.setenv("PATH", str(OWN.parent))
    assert program() == "manyhands"


@pytest.mark.parametrize("path", ["/usr/bin:/bin", ""])
def test_a_command_off_the_path_is_called_by_its_file(monkeypatch, tmp_path, path):
    monkeypatch.setenv("PATH", path)
    monkeypatch.chdir(tmp_path)
    assert program() == str(OWN)
    monkeypatch.chdir(OWN.parent.parent)
    assert program() == "bin/manyhands"
    assert subprocess.run([program(), "--version"], capture_output=True, check=True).stdout


def test_another_installation_first_on_the_path_is_not_meant(monkeypatch, tmp_path):
    other = tmp_path / "manyhands"
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}:{OWN.parent}")
    assert program() == str(OWN)


def test_the_folder_of_a_run_is_quoted(monkeypatch):
    monkeypatch.setenv("PATH", str(OWN.parent))
    assert resume_command(Path("my run")) == "manyhands train --resume='my run'"
