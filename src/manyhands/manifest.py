"""Manifest of a folder: size and checksum of every file, to verify it later."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

MANIFEST = "manifest.json"
CHUNK_BYTES = 1 << 20


class ManifestFault(Exception):
    """A manifest that is missing, damaged, or of another format."""


class Entry(NamedTuple):
    """Size and checksum of a file."""

    num_bytes: int
    sha256: str


def describe_file(file: Path) -> Entry:
    """The entry of a file."""
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while chunk := stream.read(CHUNK_BYTES):
            digest.update(chunk)
    return Entry(file.stat().st_size, digest.hexdigest())


def describe_folder(folder: Path) -> dict[str, Entry]:
    """The entries of all files of a folder, by relative path."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != MANIFEST)
    return {path.relative_to(folder).as_posix(): describe_file(path) for path in files}


def manifest_text(facts: Mapping[str, Any], entries: Mapping[str, Entry]) -> str:
    """The text of a manifest: facts and file entries, with a checksum."""
    content = {**facts, "files": {name: entry._asdict() for name, entry in entries.items()}}
    return json.dumps({**content, "sha256": _checksum(content)}, indent=2)


def read_manifest(folder: Path) -> tuple[dict[str, Any], dict[str, Entry]]:
    """The facts and file entries of a folder; raises ManifestFault if invalid."""
    try:
        text = (folder / MANIFEST).read_text(encoding="utf-8")
        facts = json.loads(text)
        entries = {name: Entry(**entry) for name, entry in facts.pop("files").items()}
        del facts["sha256"]
        if manifest_text(facts, entries) != text:
            raise ValueError("its checksum does not match")
        return facts, entries
    except (OSError, ValueError, LookupError, AttributeError, TypeError) as error:
        raise ManifestFault(f"{folder / MANIFEST} is invalid: {error}") from None


def find_damage(folder: Path) -> str | None:
    """The first file of a folder that does not match its manifest; None if all match."""
    try:
        _, entries = read_manifest(folder)
    except ManifestFault as error:
        return str(error)
    for name, known in entries.items():
        fault = _fault_of(folder / name, known)
        if fault is not None:
            return f"{folder / name} {fault}"
    return None


def _fault_of(file: Path, known: Entry) -> str | None:
    try:
        num_bytes = file.stat().st_size
        if num_bytes != known.num_bytes:
            return f"has {num_bytes} of {known.num_bytes} bytes"
        return None if describe_file(file) == known else "does not match its SHA-256 checksum"
    except OSError as error:
        return f"cannot be read: {error.strerror}"


def _checksum(content: Mapping[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
