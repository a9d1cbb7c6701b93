"""Lines of keys in configuration files, for messages."""

from pathlib import Path

import yaml


def key_place(file: Path, name: str) -> str | None:
    """File and line of a dotted key; None if the file does not have it."""
    try:
        node = yaml.compose(file.read_text(encoding="utf-8"), yaml.SafeLoader)
    except (OSError, ValueError, yaml.YAMLError):
        return None
    line = None if node is None else _line_of(node, name)
    return None if line is None else f"{file}, line {line}"


def _line_of(node: yaml.Node, name: str) -> int | None:
    """The line of a key below a node; keys may be nested, or have dots themselves."""
    pairs = node.value if isinstance(node, yaml.MappingNode) else []
    for key, value in pairs:
        if key.value == name:
            return int(key.start_mark.line) + 1
        if name.startswith(f"{key.value}."):
            found = _line_of(value, name.removeprefix(f"{key.value}."))
            if found is not None:
                return found
    return None
