"""Shells complete commands, flags and values."""

import shutil
import subprocess

import pytest

from manyhands.cli.catalog import all_commands
from manyhands.cli.completion import completion_command, script_of
from manyhands.errors import UserError


def offered(*words: str) -> list[str]:
    """What bash offers for the last word, words split at `=` as bash splits them."""
    script = script_of("bash", all_commands())
    typed = " ".join(f"'{word}'" for word in words)
    program = f"{script}\nCOMP_WORDS=({typed}) COMP_CWORD={len(words) - 1}\n_manyhands\n"
    program += 'printf "%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(
        ["bash", "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("manyhands", "tra"), ["train"]),
        (("manyhands", "train", "--dataset.roo"), ["--dataset.root="]),
        (("manyhands", "train", "--policy.type", "=", "diff"), ["diffusion"]),
        (("manyhands", "train", "--policy.type", "="), ["act", "diffusion", "smolvla"]),
        (("manyhands", "train", "--policy.type=sm"), ["smolvla"]),
        (("manyhands", "train", "--ema.enable", "=", "t"), ["true"]),
        (("manyhands", "plan", "--global_b"), ["--global_batch_size="]),
        (("manyhands", "cache", "b"), ["build"]),
        (("manyhands", "completion", ""), ["bash", "zsh", "fish"]),
        (("manyhands", "completion", "bash", ""), []),
        (("manyhands", "cache", "build", "--dataset.roo"), ["--dataset.root="]),
        (("manyhands", "train", "--dataset.root", "=", "da"), []),
    ],
)
def test_bash_offers_what_fits(words, expected):
    assert offered(*words) == expected


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_has_no_syntax_error(shell, tmp_path):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    file = tmp_path / "script"
    file.write_text(script_of(shell, all_commands()))
    done = subprocess.run([shell, "-n", str(file)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_fish_names_every_flag_of_every_command():
    script = script_of("fish", all_commands())
    for command in all_commands():
        for flag in command.flags():
            assert f" -l {flag.name} " in script


def test_fish_offers_the_words_that_follow_a_command():
    lines = script_of("fish", all_commands()).splitlines()
    for first, others in (("completion", "bash zsh fish"), ("cache", "build show clear")):
        seen = f"complete -c manyhands -n '__fish_seen_subcommand_from {first}' -f -a "
        assert f"{seen}'{others}'" in lines


@pytest.mark.parametrize("arguments", [["tcsh"], ["bash", "zsh"]])
def test_another_shell_is_refused(arguments):
    told = f"takes the name of a shell, not {' '.join(arguments)}: bash, zsh, fish"
    with pytest.raises(UserError, match=told):
        completion_command(arguments)


def test_without_a_shell_all_are_named():
    with pytest.raises(UserError, match=r"no shell\. Name one of bash, zsh, fish, as manyhands"):
        completion_command([])
