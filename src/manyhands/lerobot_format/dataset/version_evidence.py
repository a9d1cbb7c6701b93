"""The format version that the files of a dataset show, where `meta/info.json` declares another."""

from collections.abc import Iterator
from pathlib import Path
from string import Formatter
from typing import Any

from manyhands.lerobot_format import names

_LINES_VERSION = "v2.1"
_FIELDS = {"2": {"episode_chunk", "episode_index"}, "3": {"chunk_index", "file_index"}}
_TEMPLATES = {
    "2": {"data_path": names.V2_DATA_PATH, "video_path": names.V2_VIDEO_PATH},
    "3": {"data_path": names.DATA_PATH, "video_path": names.VIDEO_PATH},
}


def settled_document(root: Path, document: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The document with the version and paths its files show, and a note on each change."""
    settled, notes, found = dict(document), list[str](), _version_of_files(root)
    version = _major(document.get("codebase_version"))
    if found is not None and version in _TEMPLATES and version != _major(found):
        declared, settled["codebase_version"] = document["codebase_version"], found
        notes.append(f"codebase_version is {declared}, but the files in meta are of {found}")
    if isinstance(document.get("features"), dict):
        settled["features"] = _with_reserved(document["features"], notes)
    for key, template in _foreign_templates(settled):
        settled[key] = template
        fields = f"{key} has the fields of another version: {document[key]!r:.100}"
        notes.append(f"{fields}; {template} is used")
    return settled, notes


def _with_reserved(features: dict[str, Any], notes: list[str]) -> dict[str, Any]:
    """Features with those that every dataset has."""
    absent = {key: dtype for key, dtype in names.RESERVED_FEATURES.items() if key not in features}
    if absent:
        notes.append(f"features does not declare {', '.join(absent)}")
    return features | {
        key: {"dtype": dtype, "shape": [1], "names": None} for key, dtype in absent.items()
    }


def _version_of_files(root: Path) -> str | None:
    has_lines = (root / names.EPISODE_LINES_FILE).is_file()
    has_tables = (root / names.EPISODES_FOLDER).is_dir()
    if has_lines == has_tables:
        return None
    return _LINES_VERSION if has_lines else names.CODEBASE_VERSION


def _major(version: object) -> str:
    return version.removeprefix("v")[:1] if isinstance(version, str) else ""


def _foreign_templates(document: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Path templates in the fields of the other version, with the default of this one."""
    major = _major(document.get("codebase_version"))
    if major not in _TEMPLATES:
        return
    other = "2" if major == "3" else "3"
    for key, template in _TEMPLATES[major].items():
        used = _used_fields(document.get(key))
        if used & _FIELDS[other] and not used & _FIELDS[major]:
            yield key, template


def _used_fields(template: object) -> set[str]:
    if not isinstance(template, str):
        return set()
    try:
        return {name for _, name, _, _ in Formatter().parse(template) if name}
    except ValueError:
        return set()
