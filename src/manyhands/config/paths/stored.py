"""Paths in the config of a checkpoint: absolute, and found again where a run was moved."""

import os
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from manyhands.config.schema.decoding import Tree

NAMES_OR_FOLDERS = ("mix", "vlm_model_name")
"""Fields with names of the Hub or folders."""

T = TypeVar("T")


def with_absolute_paths(config: T) -> T:
    """The config with every path that exists made absolute, for commands in other folders."""
    if not is_dataclass(config) or isinstance(config, type):
        return config
    values = {item.name: getattr(config, item.name) for item in fields(config) if item.init}
    return replace(config, **{name: _absolute(name, value) for name, value in values.items()})


def _absolute(name: str, value: Any) -> Any:
    if isinstance(value, Path):
        return value.absolute() if value.exists() else value
    if name in NAMES_OR_FOLDERS and isinstance(value, str):
        return str(Path(value).absolute()) if Path(value).is_dir() else value
    if name in NAMES_OR_FOLDERS and isinstance(value, dict):
        return {_absolute(name, key): weight for key, weight in value.items()}
    return with_absolute_paths(value)


def relocated(stored: Tree, run_dir: Path) -> Tree:
    """A stored config with paths found beside the run, if both were moved together."""
    before = stored.get("output_dir")
    if not isinstance(before, str) or not Path(before).is_absolute():
        return stored

    def find(value: Any) -> Any:
        if isinstance(value, dict):
            return {find(key): find(inner) for key, inner in value.items()}
        if not isinstance(value, str) or not Path(value).is_absolute() or Path(value).exists():
            return value
        moved = Path(os.path.normpath(run_dir.absolute() / os.path.relpath(value, before)))
        return str(moved) if moved.exists() else value

    found: Tree = find(stored)
    return found
