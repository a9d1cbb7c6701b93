"""Lines that fit a terminal: broken between words, never within one."""

import os
import re
import sys
import textwrap
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

COMMAND = re.compile(r"(?<=: )(?:\S*/)?(?:manyhands|mkdir|pip|python) \S.*$")
"""A command at the end of a line: people paste it, so it stays in one piece."""
_KEPT_SPACE = "\0"


def wrapped(text: str, width: int, indent: int | None = None) -> str:
    """Text in lines of at most `width` columns; those that continue a line are indented."""
    kept = COMMAND.sub(lambda command: command[0].replace(" ", _KEPT_SPACE), text)
    own_indent = len(kept) - len(kept.lstrip(" "))
    lines = textwrap.wrap(
        kept,
        width,
        subsequent_indent=" " * (own_indent + 2 if indent is None else indent),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(lines).replace(_KEPT_SPACE, " ")


def print_wrapped(text: str, file: IO[str], indent: int | None = None) -> None:
    """Print a line; on a terminal it is wrapped."""
    width = terminal_width(file)
    print(text if width is None else wrapped(text, width, indent), file=file, flush=True)


def print_on(console: "Console", text: str) -> None:
    """Print a line on a console; on a terminal it is wrapped."""
    shown = wrapped(text, console.width) if console.is_terminal else text
    console.print(shown, markup=False, soft_wrap=True)


def print_over_echo(text: str) -> None:
    """Print an answer to Ctrl-C over the ^C that a terminal shows."""
    if sys.stderr.isatty():
        sys.stderr.write("\r")
    print_wrapped(text, sys.stderr)


def terminal_width(file: IO[str]) -> int | None:
    """The columns of the terminal that a file is; None if it is none."""
    try:
        return os.get_terminal_size(file.fileno()).columns or None
    except (OSError, ValueError, AttributeError):
        return None
