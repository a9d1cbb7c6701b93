"""YAML and JSON documents of any content, read in little time and memory."""

import json
from pathlib import Path
from typing import Any

import yaml

MAX_BYTES = 1 << 20
"""Bytes of a YAML file: one that people write has far fewer, and its parser is slow."""
MAX_JSON_BYTES = 1 << 26
MAX_VALUES = 1_000_000
"""Values of a YAML file, those that aliases repeat counted as often as they are repeated.

Without aliases, no file of the permitted size has as many.
"""


def read_document(path: Path) -> Any:
    """Read a YAML or JSON file; raises ValueError if it is invalid."""
    most = MAX_JSON_BYTES if path.suffix == ".json" else MAX_BYTES
    with path.open("rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise ValueError(f"it is larger than {most:,} bytes, too large for a configuration")
    try:
        return _parsed(content.decode("utf-8"), path.suffix == ".json")
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except yaml.MarkedYAMLError as error:
        line = "" if error.problem_mark is None else f"line {error.problem_mark.line + 1}: "
        raise ValueError(f"{line}{error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None


def _parsed(text: str, is_json: bool) -> Any:
    if not is_json:
        return _parsed_yaml(text)
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        # YAML allows what JSON does not, such as a trailing comma.
        if len(text) > MAX_BYTES:
            raise
        return _parsed_yaml(text)


def _parsed_yaml(text: str) -> Any:
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        if num_values(node, {}) > MAX_VALUES:
            raise ValueError(
                f"its aliases (*name) repeat more than {MAX_VALUES:,} values. Write the values out"
            )
        return loader.construct_document(node)
    finally:
        loader.dispose()


def num_values(node: yaml.Node, known: dict[int, float]) -> float:
    """Count the values below a node with aliases expanded; infinite for a recursive alias."""
    if id(node) not in known:
        known[id(node)] = float("inf")
        children = [*node.value] if isinstance(node, yaml.CollectionNode) else []
        if isinstance(node, yaml.MappingNode):
            children = [each for pair in node.value for each in pair]
        known[id(node)] = 1 + sum(num_values(child, known) for child in children)
    return known[id(node)]
