"""Proposes an existing path for one that is missing."""

import difflib
from pathlib import Path

LEAST_ALIKE = 0.7


def similar_path(path: Path) -> str:
    """`; did you mean ...?` with a path of nearly the same name beside it, or nothing."""
    try:
        names = [] if path.exists() else [each.name for each in path.parent.iterdir()]
    except (OSError, ValueError):
        return ""
    found = difflib.get_close_matches(path.name, names, n=1, cutoff=LEAST_ALIKE)
    return f"; did you mean {path.with_name(found[0])}?" if found else ""
