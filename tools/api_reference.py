"""Write docs/api.md: the public names of the package, from their signatures and docstrings.

Run `make docs`, or `python tools/api_reference.py`.
"""

import inspect
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import manyhands

PAGE = Path(__file__).resolve().parents[1] / "docs" / "api.md"
INTRO = """# API reference

Generated from signatures and docstrings by `make docs`; do not edit. [Python API](python.md) has
examples. Names that are not on this page are internal.
"""


def page() -> str:
    """The complete page."""
    names = sorted(manyhands.__all__, key=str.lower)
    links = [f"- [`manyhands.{name}`](#manyhands{name.lower()})" for name in names]
    chapters = ["\n".join(chapter(name, getattr(manyhands, name))) for name in names]
    return "\n\n".join([INTRO.rstrip(), "\n".join(links), *chapters]) + "\n"


def chapter(name: str, value: Any) -> Iterator[str]:
    """Yield the lines about one public name."""
    yield f"## manyhands.{name}\n"
    if isinstance(value, type):
        yield from class_lines(name, value)
    else:
        yield f"```text\n{name}{signature(value)}\n```\n\n{text(value)}"


def class_lines(name: str, kind: type) -> Iterator[str]:
    """Yield the lines about a class: what it is, then its members."""
    if issubclass(kind, Enum):
        yield f"{text(kind)}\n\n{', '.join(f'`{each.name}`' for each in kind)}"
        return
    # Objects of most classes come from a function; those that users make say how.
    if vars(kind).get("__init__") is not None and kind.__init__.__doc__:
        yield f"```text\n{name}{signature(kind)}\n```\n"
    yield text(kind)
    rows = [*member_rows(kind)]
    if rows:
        yield "\n| member | |\n|---|---|"
        yield from rows


def member_rows(kind: type) -> Iterator[str]:
    """Yield a row for each public member that the class itself defines."""
    for name, member in vars(kind).items():
        if name.startswith("_") or not text(member):
            continue
        is_property = isinstance(member, property)
        called = "" if is_property else signature(member, is_method=True)
        words = " ".join(text(member).split())
        yield f"| `{name}{called}` | {words} |".replace("\\n", " ")


def signature(value: Any, is_method: bool = False) -> str:
    """The arguments of a function, on one line, without the names of modules."""
    if isinstance(value, classmethod | staticmethod):
        value = value.__func__
    found = inspect.signature(value)
    names = [*found.parameters.values()][is_method:]
    parts = [parameter_words(each) for each in names]
    return f"({', '.join(parts)})"


def parameter_words(parameter: inspect.Parameter) -> str:
    """A parameter with its default, which is not shown where it is an object."""
    if parameter.default is parameter.empty:
        return str(parameter.replace(annotation=parameter.empty))
    default = repr(parameter.default)
    return f"{parameter.name}={default if len(default) < 20 else '...'}"


def text(value: Any) -> str:
    """The docstring of a value; empty without one of its own."""
    found = value.__func__ if isinstance(value, classmethod | staticmethod) else value
    if not (callable(found) or isinstance(found, property)):
        return ""
    return inspect.cleandoc(found.__doc__ or "")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE}")
