"""Follows the advice of a message to the letter: a command that is wrong becomes the next one."""

import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

PLACEHOLDERS = {
    "YOUR_NAME/POLICY_NAME": "me/pick",
    "FOLDER": "data",
    "DIR": "data",
    "NAME": "out",
    "N": "2",
    "RUN": "runs/pick",
}
"""What a reader puts in the place of capitals."""
ANOTHER = {
    "--output_dir": "runs/new",
    "--json": "out.json",
    "--output": "new",
    "--script": "job.sh",
    "--cache.folder": "frames",
}
"""What a reader chooses where a message asks for another path."""
FLAG = r"--[a-z][\w.]*(?:=[^\s,;:]+)?"

Rule = Callable[[list[str], re.Match[str], Path], list[str]]


def follow(typed: str, said: str, folder: Path) -> str | None:
    """The command that the first line of a message leads to; None if that takes a human."""
    line = said.splitlines()[0]
    for pattern, rule in RULES:
        found = re.search(pattern, line)
        if found is not None:
            return shlex.join(rule(shlex.split(typed), found, folder))
    return None


def wrong_place(words: list[str], found: re.Match[str]) -> int:
    """The place of the first word that a message is about: a flag, or a value."""
    names = [word.partition("=") for word in words]
    said = re.split(r"[\s;:]+", found.string.replace("manyhands:", ""))
    stated = [each.partition("=")[0].rstrip(".,") for each in said]
    for text in stated:
        for place, (name, _, value) in enumerate(names[1:], 1):
            if text and text in (name, value):
                return place
    raise AssertionError(f"{found.string} names nothing of {words}")


def filled(text: str) -> str:
    """A text with the choices of a reader in the place of capitals."""
    for capitals, choice in PLACEHOLDERS.items():
        text = re.sub(rf"\b{re.escape(capitals)}\b", choice, text)
    return text.rstrip(".")


def with_flag(words: list[str], flag: str) -> list[str]:
    """The words with a flag, in the place of one of the same name."""
    name = flag.partition("=")[0]
    same = [place for place, word in enumerate(words) if word.partition("=")[0] == name]
    if same:
        return [*words[: same[0]], flag, *words[same[0] + 1 :]]
    return [*words, flag]


def replace_flag(words: list[str], found: re.Match[str], _folder: Path) -> list[str]:
    """Put the first flag of an advice in the place of the wrong one, with its value; add others."""
    place, (first, *others) = wrong_place(words, found), re.findall(FLAG, found[1])
    first, (_, equals, value) = filled(first), words[place].partition("=")
    if "=" not in first:
        first += equals + value
    words = [*words[:place], first, *words[place + 1 :]]
    for other in others:
        words = with_flag(words, filled(other))
    return words


def replace_value(words: list[str], found: re.Match[str], _folder: Path) -> list[str]:
    """Put the value of an advice in the place of the wrong one."""
    place = wrong_place(words, found)
    name, equals, _ = words[place].rpartition("=")
    return [*words[:place], f"{name}{equals}{filled(found[1])}", *words[place + 1 :]]


def add_flag(words: list[str], found: re.Match[str], _folder: Path) -> list[str]:
    """Add the flag of an advice, with a path to write of the reader's choice."""
    name, _, value = found[1].rstrip(".").partition("=")
    is_open = value.isupper() and value != "RUN" and name in ANOTHER
    return with_flag(words, f"{name}={ANOTHER[name]}" if is_open else filled(found[1]))


def choose_another(words: list[str], found: re.Match[str], _folder: Path) -> list[str]:
    """Give a flag another value."""
    return with_flag(words, f"{found[1].rstrip('.')}={ANOTHER[found[1].rstrip('.')]}")


def remove_flag(words: list[str], found: re.Match[str], _folder: Path) -> list[str]:
    """Remove the wrong flag."""
    place = wrong_place(words, found)
    return [*words[:place], *words[place + 1 :]]


def keep_first(words: list[str], found: re.Match[str], _folder: Path) -> list[str]:
    """Remove the second of two flags."""
    return [word for word in words if word.partition("=")[0] != found[1]]


def run_shell(words: list[str], found: re.Match[str], folder: Path) -> list[str]:
    """Run the command of an advice, then the same again."""
    subprocess.run(shlex.split(found[1]), cwd=folder, check=True)
    return words


def take_command(_words: list[str], found: re.Match[str], _folder: Path) -> list[str]:
    """Take the command of an advice."""
    return shlex.split(filled(found[1]))


def replace_command(words: list[str], found: re.Match[str], _folder: Path) -> list[str]:
    """Take another command with the same flags."""
    return [words[0], found[1], *words[2:]]


def replace_subcommand(words: list[str], found: re.Match[str], _folder: Path) -> list[str]:
    """Take another subcommand with the same flags."""
    return [*words[:2], found[1], *words[3:]]


def edit_key(words: list[str], found: re.Match[str], folder: Path) -> list[str]:
    """Rename a key in a line of a file."""
    file, line, wrong, right = folder / found[1], int(found[2]) - 1, found[3], found[4]
    lines = file.read_text().splitlines()
    section = wrong.rpartition(".")[0]
    new = right.removeprefix(f"{section}.") if section else right
    lines[line] = lines[line].replace(wrong.rpartition(".")[2], new, 1)
    file.write_text("\n".join(lines) + "\n")
    return words


def indent_line(words: list[str], found: re.Match[str], folder: Path) -> list[str]:
    """Put a line of a script below a guard."""
    file, line = folder / words[1], int(found[1]) - 1
    lines = file.read_text().splitlines()
    lines[line] = f"{found[2]}\n    {lines[line]}"
    file.write_text("\n".join(lines) + "\n")
    return words


def ask_for_help(words: list[str], found: re.Match[str], _folder: Path) -> list[str]:
    """Ask the command for help about a topic."""
    return [*words[:2], found[1]]


RULES: tuple[tuple[str, Rule], ...] = (
    (r"^(\S+), line (\d+): unknown key (\S+); (?:use|did you mean) ([\w.]+)", edit_key),
    (r", line (\d+): .* Put it below (.*)$", indent_line),
    (r"unknown command \S+; did you mean (\w+)\?", replace_command),
    (r"(?:, as|Name a run directory:|a name:|Use:) (manyhands .*)$", take_command),
    (r"(?:Create it): (.*)$", run_shell),
    (rf"unknown flag .*(?:use|did you mean) ({FLAG}.*)$", replace_flag),
    (r"^cache \w+ is unknown; choose from \w+, (\w+)", replace_subcommand),
    (rf"Did you mean ({FLAG})\?", replace_flag),
    (r"did you mean ([^\s?]+)\?", replace_value),
    (r"Choose a run below it: ([^\s,]+)", replace_value),
    (r"[Rr]emove it", remove_flag),
    (rf"(?:Use|use|Write) ({FLAG})", replace_flag),
    (rf", as ({FLAG})", add_flag),
    (r"[Ss]et another (--[\w.]+)", choose_another),
    (rf"(?:Set|Add|Resume it:|needs|without) ({FLAG})", add_flag),
    (r"and (--\w+)=\S+ contradict each other\. Set only one", keep_first),
    (r"expects a list such as (\[\w+\])", replace_value),
    (r"(?:must be at least|between) (\d+)", replace_value),
    (r"(?:choose from|is not) (\w+),", replace_value),
    (r"on the CPU use (\w+)", replace_value),
    (r"; see (--help\S*)$", ask_for_help),
)
"""What a reader does about a message; the first that fits."""
