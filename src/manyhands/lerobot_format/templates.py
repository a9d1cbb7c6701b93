"""Path templates of `meta/info.json`, filled in without trusting them."""

import re
from collections.abc import Mapping
from functools import lru_cache
from string import Formatter

_MAX_CHARACTERS = 500
_WIDTH = re.compile(r"(0?\d{1,2})?d?")
_DRIVE = re.compile(r"[A-Za-z]:")


def filled(template: object, values: Mapping[str, int | str]) -> str:
    """The path a template names; a ValueError says why it names none inside the folder."""
    if not isinstance(template, str) or len(template) > _MAX_CHARACTERS:
        raise _unfillable(template, f"it must be a string of at most {_MAX_CHARACTERS} characters")
    try:
        _check_fields(template, frozenset(values))
        path = template.format(**values)
    except ValueError as error:
        raise _unfillable(template, str(error)) from None
    if _leads_out(path):
        raise ValueError(f"the path {path!r} leads out of the dataset folder")
    return path


@lru_cache(maxsize=64)
def _check_fields(template: str, known: frozenset[str]) -> None:
    """Refuse what could reach into objects or write endless padding."""
    for _, field, width, conversion in Formatter().parse(template):
        if field is None:
            continue
        if field not in known:
            raise ValueError(f"{{{field}}} is not one of {', '.join(sorted(known))}")
        if conversion or not _WIDTH.fullmatch(width or ""):
            raise ValueError(f"{{{field}}} has an unsupported format")


def _leads_out(path: str) -> bool:
    # Both separators and drives count, so that a folder is as safe on any system.
    parts = re.split(r"[/\\]", path)
    has_root = not parts[0] or _DRIVE.match(path) is not None
    return has_root or ".." in parts or not path.isprintable()


def _unfillable(template: object, reason: str) -> ValueError:
    return ValueError(f"the path template {template!r:.100} cannot be filled in: {reason}")
