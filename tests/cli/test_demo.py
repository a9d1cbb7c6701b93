"""`manyhands demo` on the command line."""

import subprocess
import sys


def run(*argv: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "manyhands", "demo", *argv]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_help_lists_the_flags():
    done = run("--help")
    assert done.returncode == 0
    for flag in ("--seed", "--fast", "--json", "--output_dir", "--launch.num_processes"):
        assert flag in done.stdout


def test_mistakes_are_told_together():
    done = run("--sed=1", "--fast=perhaps", "--print_config")
    assert done.returncode == 2
    assert "did you mean --seed?" in done.stderr
    assert "--fast=perhaps: expects true or false" in done.stderr
    assert "--print_config is a flag of manyhands train" in done.stderr
