"""Names of types for users."""

import types
from enum import Enum
from pathlib import Path
from typing import Any, Union, get_args, get_origin

_WORDS: dict[Any, str] = {
    int: "an integer",
    float: "a number",
    bool: "true or false",
    str: "text",
    Path: "a path",
    list[int]: "a list such as [0,1,2]",
    list[str]: "a list such as [a,b]",
    tuple[int, int]: "two integers such as [480,640]",
    tuple[int, ...]: "integers such as [512,1024]",
    tuple[float, float]: "two numbers such as [0.9,0.95]",
}


def type_name(hint: Any) -> str:
    """Describe a type for users."""
    options = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    return " or ".join("null" if kind is type(None) else _words(kind) for kind in options)


def _words(kind: Any) -> str:
    if get_origin(kind) is not dict:
        return _WORDS.get(kind, str(kind))
    values = get_args(kind)[1]
    is_enum = isinstance(values, type) and issubclass(values, Enum)
    return "a mapping such as {name: " + ("|".join(values) if is_enum else "value") + "}"
