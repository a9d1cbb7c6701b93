"""Decodes JSON values into the types of dataclasses; errors name the value."""

import difflib
import types
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints


def decode(hint: Any, raw: Any, name: str = "") -> Any:
    """Decode parsed JSON to the hinted type; raises ValueError if it does not fit."""
    if get_origin(hint) in (Union, types.UnionType):
        (inner,) = (argument for argument in get_args(hint) if argument is not type(None))
        return None if raw is None else decode(inner, raw, name)
    if get_origin(hint) in (list, tuple, dict):
        return _decode_container(hint, raw, name)
    if isinstance(hint, type) and is_dataclass(hint):
        return _decode_dataclass(hint, raw, name)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _decode_enum(hint, raw, name)
    return _decode_scalar(hint, raw, name)


MAX_SHOWN = 500
"""Characters of a value in a message."""


NUM_BITS = 64
"""Of an integer, at most."""


def bounded(value: Any) -> Any:
    """A value, unless it is an integer that neither torch nor a float can hold."""
    if isinstance(value, int) and value.bit_length() > NUM_BITS:
        raise OverflowError
    return value


def shown(raw: Any) -> str:
    """A value as messages show it: a hostile file has some of a million characters."""
    try:
        text = str(raw)
    except ValueError:
        return "(a number of thousands of digits)"
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."


def closest_match(name: str, names: Iterable[str]) -> str:
    """`; did you mean ...?` with the closest name, or nothing."""
    # Compare without dashes, which all flags have in common.
    known = {each.lstrip("-"): each for each in names}
    found = difflib.get_close_matches(name.lstrip("-"), known, n=1, cutoff=0.6)
    return f"; did you mean {known[found[0]]}?" if found else ""


def unknown_name(name: str, names: Iterable[str]) -> str:
    """The error for an unknown name."""
    known = list(names)
    return f"{name} is unknown; choose from {', '.join(known)}{closest_match(name, known)}"


def _decode_container(hint: Any, raw: Any, name: str) -> Any:
    container, arguments = get_origin(hint), get_args(hint)
    if container is dict:
        items = _expect(dict, raw, name, "an object").items()
        return {key: decode(arguments[1], value, _inside(name, key)) for key, value in items}
    values = _expect(list, raw, name, "a list")
    is_open = container is list or arguments[-1] is Ellipsis
    inner = arguments[:1] * len(values) if is_open else arguments
    if len(inner) != len(values):
        raise ValueError(f"{name} must have {len(inner)} values, not {len(values)}")
    indexed = enumerate(zip(inner, values, strict=True))
    return container(decode(part, value, _inside(name, index)) for index, (part, value) in indexed)


def _decode_dataclass(hint: Any, raw: Any, name: str) -> Any:
    values = _expect(dict, raw, name, "an object")
    hints, known = get_type_hints(hint), [item.name for item in fields(hint)]
    for key in values:
        if key not in known:
            raise ValueError(f"unknown key {_inside(name, key)}{closest_match(key, known)}")
    decoded = {key: decode(hints[key], value, _inside(name, key)) for key, value in values.items()}
    try:
        return hint(**decoded)
    except TypeError as error:  # a key without a default is missing
        raise ValueError(f"{name or hint.__name__} is incomplete: {error}") from None


def _decode_enum(hint: type[Enum], raw: Any, name: str) -> Enum:
    try:
        return hint(raw)
    except ValueError:
        known = ", ".join(str(member.value) for member in hint)
        raise ValueError(f"{name} is {raw!r}, not one of {known}") from None


def _decode_scalar(hint: Any, raw: Any, name: str) -> Any:
    if hint is Path:
        return Path(_expect(str, raw, name, "text"))
    if hint is int:  # LeRobot declares some switches as int and writes them as true and false
        return int(_expect(int, raw, name, "an integer"))
    if hint is float and not isinstance(raw, bool):
        return float(_expect(int | float, raw, name, "a number"))
    words = {bool: "true or false", str: "text", float: "a number"}
    return _expect(hint, raw, name, words.get(hint, str(hint)))


def _expect(kind: Any, raw: Any, name: str, words: str) -> Any:
    if not isinstance(raw, kind):
        raise ValueError(f"{name or 'the document'} must be {words}, not {raw!r}")
    return raw


def _inside(name: str, key: str | int) -> str:
    return f"{name}.{key}" if name else str(key)
