"""Which fields of a config are flags, and which field takes flags of other names."""

from dataclasses import Field, fields
from typing import Any

TAKES_OTHERS = "takes others"
"""Marks, in a field's metadata, the one that takes raw values of other names; lists those names."""


def flag_fields(config: type) -> list["Field[Any]"]:
    """The fields of a config that are flags, in order of declaration."""
    return [item for item in fields(config) if TAKES_OTHERS not in item.metadata]


def stored_name(field: str) -> str:
    """The name of a field on command lines and in files: without the underscore of a keyword."""
    return field.removesuffix("_")


def field_of_others(config: type, name: str) -> str | None:
    """The field that takes the value of a name that is no field; None if none does."""
    takers = [item for item in fields(config) if TAKES_OTHERS in item.metadata]
    return next((item.name for item in takers if name in item.metadata[TAKES_OTHERS]()), None)
