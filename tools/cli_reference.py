"""Write docs/cli.md: every command and flag with type, default and help, from the schema itself.

Run `make docs`, or `python tools/cli_reference.py`.
"""

import io
import json
import os
from collections.abc import Iterator
from contextlib import redirect_stdout, suppress
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from manyhands.cli.catalog import Command, all_commands
from manyhands.cli.main import find_command
from manyhands.config.schema.decoding import Flag, encode
from manyhands.config.schema.help import flag_groups
from manyhands.errors import HelpShown

PAGE = Path(__file__).resolve().parents[1] / "docs" / "cli.md"
TRAIN = "[`manyhands train`](#manyhands-train)"
LONGEST_DEFAULT = 60
INTRO = """# Command-line reference

Generated from the configuration schema by `make docs`; do not edit. `manyhands COMMAND --help`
prints the same. [Configuration](configuration.md) describes spellings, files and precedence.
"""


COMMANDS = all_commands()


def anchor(command: Command) -> str:
    """A command's heading as GitHub links to it."""
    return f"manyhands-{command.name.replace(' ', '-')}"


def page() -> str:
    """The complete page."""
    links = [f"- [`manyhands {each.name}`](#{anchor(each)})" for each in COMMANDS]
    chapters = ["\n".join(chapter(each)) for each in COMMANDS]
    return "\n\n".join([INTRO.rstrip(), "\n".join(links), *chapters]) + "\n"


def chapter(command: Command) -> Iterator[str]:
    """Yield the lines about one command: usage, then a table per section."""
    yield f"## manyhands {command.name}\n"
    yield f"```text\n{usage(command)}\n```"
    if command.takes_train_flags:
        yield f"\nTakes every flag of {TRAIN}, and these:"
    for section, flags in flag_groups(command.config).items():
        yield f"\n### {command.name}: {section}\n"
        yield "| flag | type | default | help |\n|---|---|---|---|"
        yield from (row(flag) for flag in flags)


def usage(command: Command) -> str:
    """What `--help` prints above the flags."""
    first, *rest = command.name.split()
    run, printed = find_command(first), io.StringIO()
    assert run is not None, command.name
    os.environ["COLUMNS"] = "100"
    with redirect_stdout(printed), suppress(HelpShown):
        run([*rest, "--help"])
    return printed.getvalue().partition("\n\nrun:\n")[0].strip()


def row(flag: Flag) -> str:
    """One flag as a row of a table."""
    cells = (f"`--{flag.name}`", type_words(flag.type), default_words(flag.default), flag.help)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def type_words(hint: Any) -> str:
    """A type as users write its values."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return " or ".join(type_words(each) for each in inner)
    if origin is tuple and inner[-1] is not Ellipsis:
        return f"[{', '.join(type_words(each) for each in inner)}]"
    if origin in (tuple, list):
        return f"list of {type_words(inner[0])}"
    if origin is dict:
        return "mapping"
    return {NoneType: "null", Path: "path", str: "text"}.get(hint, str(hint.__name__))


def default_words(default: Any) -> str:
    """A default as it is written in a flag; of long mappings the keys."""
    value = encode(default)
    text = value if isinstance(value, str) else json.dumps(value)
    if len(text) > LONGEST_DEFAULT:
        return ", ".join(f"`{key}`" for key in value)
    return f"`{text}`" if text else ""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE}")
