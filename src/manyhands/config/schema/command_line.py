"""Parses the command line into a tree of raw values; several spellings are accepted.

`--a.b=v`, `--a.b v` and `a.b=v` are equivalent, and so are `--a_b=v` and `--a-b=v`.
A flag without a value means true.
`--compare A B` means `--compare=[A,B]`.
`--policy=act` means `--policy.type=act`, `--config=F` means `--config_path=F`.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from manyhands.config.schema.decoding import BareFlag, RawText, Tree
from manyhands.errors import ConfigError

SPELLINGS = {
    "policy": "policy.type",
    "optimizer": "optimizer.type",
    "scheduler": "scheduler.type",
    "config": "config_path",
}
SWITCHES = ("help", "print_config")
PAIRS = ("compare",)
CONFIG_SUFFIXES = (".yaml", ".yml", ".json")


@dataclass(frozen=True)
class CommandLine:
    """A parsed command line: values to set, and switches such as --help."""

    tree: Tree
    switches: frozenset[str]
    topic: str = ""
    """The topic of --help, if it has one."""


def read_flags(argv: Sequence[str]) -> CommandLine:
    """Sort arguments into values and switches; raise with every invalid argument."""
    values, strays = _assignments(argv)
    if strays:
        raise ConfigError([f"{stray} is not a flag. Write {_dashed(stray)}" for stray in strays])
    switches = frozenset(name for name in SWITCHES if name in values)
    tree: Tree = {}
    for name, text in values.items():
        if name not in SWITCHES:
            set_value(tree, SPELLINGS.get(name, name), text)
    topic = values.get("help", BareFlag("true"))
    return CommandLine(tree, switches, "" if isinstance(topic, BareFlag) else topic)


def _assignments(argv: Sequence[str]) -> tuple[dict[str, RawText], list[str]]:
    values: dict[str, RawText] = {}
    strays: list[str] = []
    arguments = list(argv)
    while arguments:
        argument = arguments.pop(0)
        name, equals, text = argument.partition("=")
        dashed = name.startswith("--")
        name = "help" if argument == "-h" else name.removeprefix("--")
        if dashed and "." not in name:  # Some sections have keys of the user's choice.
            name = name.replace("-", "_")
        if argument == "-h" or (dashed and not equals):
            has_value = bool(arguments) and not arguments[0].startswith(("--", "-h"))
            # A topic may follow --help, but not the flag of another spelling.
            has_value = has_value and not (name in SWITCHES and "=" in arguments[0])
            bare = not has_value or name == "print_config"
            if bare:
                values[name] = BareFlag("true")
            elif name in PAIRS:
                values[name] = RawText(json.dumps(_take_pair(arguments)))
            else:
                values[name] = RawText(arguments.pop(0))
            values[name].flag = argument
        elif not equals or name.startswith("-"):
            strays.append(argument)
        else:
            values[name] = RawText(text)
            values[name].flag = argument.partition("=")[0]
    return values, strays


def _dashed(stray: str) -> str:
    """A stray argument as a flag, as far as it is known what it means."""
    name = stray.lstrip("-")
    if stray.startswith("-") and "=" in name:
        return f"--{name}"
    if Path(stray).suffix in CONFIG_SUFFIXES:
        return f"--config={stray}"
    return f"--dataset.root={stray}" if Path(stray, "meta").is_dir() else "--name=value"


def _take_pair(arguments: list[str]) -> list[str]:
    """Take the values of a flag that has two; fewer where another flag follows."""
    pair = [*takewhile(lambda each: not each.startswith("--"), arguments[:2])]
    del arguments[: len(pair)]
    return pair


def set_value(tree: Tree, name: str, value: object) -> None:
    """Set the value of a dotted name; create missing sections."""
    *sections, leaf = name.split(".")
    for section in sections:
        inner = tree.get(section)
        if not isinstance(inner, dict):
            inner = tree[section] = {}
        tree = inner
    tree[leaf] = value


def merge_trees(below: Tree, above: Tree) -> Tree:
    """Merge `above` over `below`; a changed `type` discards the section below."""
    merged = dict(below)
    for name, value in above.items():
        old = merged.get(name)
        if isinstance(value, dict) and isinstance(old, dict):
            changed = "type" in value and value["type"] != old.get("type")
            merged[name] = dict(value) if changed else merge_trees(old, value)
        else:
            merged[name] = value
    return merged
