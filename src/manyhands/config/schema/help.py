"""Generates `--help` from the config: essentials by task, or the flags of a topic."""

import difflib
import re
import shutil
import textwrap
from collections.abc import Iterator, Mapping, Sequence

from manyhands.config.schema.decoding import Flag, encode, flags_of
from manyhands.errors import ConfigError

INDENT = 32
MIN_WIDTH, MAX_WIDTH = 60, 120
ALL = "all"
EXAMPLE = 38  # Width of the longest example.
CHOICES = ("env.", "optimizer.", "scheduler.")
"""Beginnings of topics that are listed with their section."""

Essentials = Mapping[str, Mapping[str, str]]
"""Examples of the flags that most users need and what they are for, by task."""


def help_text(
    config: type, usage: str, topic: str = "", essentials: Essentials | None = None
) -> str:
    """The --help text of a command configured by a dataclass; essentials unless a topic is set."""
    groups = flag_groups(config)
    if not topic and essentials is not None:
        tasks = (_task(name, lines) for name, lines in essentials.items())
        return "\n".join([usage_text(usage), "", *tasks, "", _topics(groups)])
    if topic in ("", ALL):
        return "\n\n".join([usage_text(usage), *(_group(*group) for group in groups.items())])
    found = flags_about(groups, topic)
    if not found:
        raise unknown_topic(groups, topic)
    return "\n\n".join(_group(*group) for group in found.items())


def flag_groups(config: type) -> dict[str, list[Flag]]:
    """The flags of a config by section; what all choices of a section share is listed once."""
    groups: dict[str, list[Flag]] = {"run": []}
    flags = [*flags_of(config)]
    for flag in flags:
        base, _, kind = flag.section.removesuffix(")").partition(" (")
        alike = [each for each in flags if each.name == flag.name and each.section != base]
        num_kinds = len({each.section for each in flags if each.section.startswith(f"{base} (")})
        is_shared = len(alike) == num_kinds > 1 and _is_one(alike)
        name = base if not kind or is_shared else f"{base}.{kind}"
        group = groups.setdefault(name, [])
        if all(each.name != flag.name for each in group):
            group.append(flag)
    return {name: group for name, group in groups.items() if group}


def _is_one(flags: Sequence[Flag]) -> bool:
    return all((flag.default, flag.help) == (flags[0].default, flags[0].help) for flag in flags)


def flags_about(groups: Mapping[str, list[Flag]], topic: str) -> dict[str, list[Flag]]:
    """The groups of a topic: a section, one of its choices with what they share, or a flag."""
    found = {
        name: flags
        for name, flags in groups.items()
        if f"{name}.".startswith(f"{topic}.") or topic.startswith(f"{name}.")
        if topic in groups or f"{name}.".startswith(f"{topic}.")
    }
    if found:
        return found
    named = {
        name: [flag for flag in flags if f"{flag.name}.".startswith(f"{topic}.")]
        for name, flags in groups.items()
    }
    return {name: flags for name, flags in named.items() if flags}


def unknown_topic(groups: Mapping[str, list[Flag]], topic: str) -> ConfigError:
    """The error for a topic that is no section and no flag."""
    flags = [flag.name for group in groups.values() for flag in group]
    inner = [name for name in dict.fromkeys(flags) if name.endswith(f".{topic}")]
    alike = inner or difflib.get_close_matches(topic, [*groups, *flags], n=1, cutoff=0.8)
    meant = " or ".join(f"--help={name}" for name in alike)
    hint = f"Did you mean {meant}?" if alike else f"Topics: {', '.join(groups)}"
    return ConfigError(f"--help={topic} is no topic and no flag. {hint}")


def _topics(groups: Mapping[str, list[Flag]]) -> str:
    listed = ", ".join([ALL, *(name for name in groups if not name.startswith(CHOICES))])
    return usage_text(f"More with --help=TOPIC or --help=FLAG. Topics: {listed}")


def _task(name: str, examples: Mapping[str, str]) -> str:
    indent = " " * (EXAMPLE + 4)
    lines = [f"  {example:{EXAMPLE}}  {text}" for example, text in examples.items()]
    return "\n".join(
        [f"{name}:", *(textwrap.fill(line, _width(), subsequent_indent=indent) for line in lines)]
    )


def _group(name: str, flags: Sequence[Flag]) -> str:
    return "\n".join([f"{name}:", *(_entry(flag) for flag in flags)])


def _entry(flag: Flag) -> str:
    default = encode(flag.default)
    shown = "" if default in (None, {}, []) else f" [{_plain(default)}]"
    name = f"  --{flag.name}"
    gap = "\n" + " " * INDENT if len(name) > INDENT - 2 else " " * (INDENT - len(name))
    # A flag and the first words of its help stay on one line.
    lines = textwrap.wrap(f"{flag.help}{shown}", _width() - INDENT, break_long_words=False)
    return name + gap + ("\n" + " " * INDENT).join(lines)


def usage_text(text: str) -> str:
    """The usage of a command, fitted to the terminal."""
    return "\n\n".join("\n".join(_wrapped_lines(block)) for block in text.split("\n\n"))


def _wrapped_lines(block: str) -> Iterator[str]:
    """Wrap prose as a whole, but each command and each indented line by itself."""
    is_prose = not block.startswith(("manyhands ", " "))
    if not block.startswith(" "):
        block = " ".join(block.split()) if is_prose else re.sub("\n +", " ", block)
    for line in block.splitlines():
        indent = " " * (0 if is_prose else len(line) - len(line.lstrip()) + 2)
        yield from textwrap.wrap(line, _width(), subsequent_indent=indent)


def _width() -> int:
    return max(MIN_WIDTH, min(shutil.get_terminal_size().columns, MAX_WIDTH)) - 1


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict) and all(isinstance(inner, dict) for inner in value.values()):
        return ", ".join(value)
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_plain(inner)}" for key, inner in value.items())
    return str(value)
