"""The files of a damaged dataset, found by their names wherever their folder is."""

import re
from dataclasses import dataclass
from pathlib import Path

from manyhands.data.repairing.report import RepairReport

_CHUNK = re.compile(r"chunk-(\d+)")
_NUMBER = re.compile(r"(\d+)$")


@dataclass(frozen=True)
class FoundFile:
    """A data or video file, and the numbers in its path."""

    path: Path
    chunk: int
    number: int
    camera: str = ""

    @property
    def is_one_episode(self) -> bool:
        """Whether its name says that it holds one episode, as in version 2."""
        return self.path.stem.startswith("episode")


@dataclass(frozen=True)
class FoundFiles:
    """All files of a dataset, in the order of their numbers."""

    data: list[FoundFile]
    videos: dict[str, list[FoundFile]]  # By camera


def find_files(root: Path, report: RepairReport) -> FoundFiles:
    """Find data and video files below a dataset's folder; folders with other names are noted."""
    data = [_found(root, path) for path in _paths(root, ".parquet", "data", report)]
    videos: dict[str, list[FoundFile]] = {}
    for path in _paths(root, ".mp4", "videos", report):
        found = _found(root, path)
        if found.camera:
            videos.setdefault(found.camera, []).append(found)
    return FoundFiles(_ordered(data), {key: _ordered(videos[key]) for key in sorted(videos)})


def _paths(root: Path, suffix: str, folder: str, report: RepairReport) -> list[Path]:
    """Files in the usual folder, or in any other but `meta` where that has none."""
    usual = [path for path in root.glob(f"{folder}/**/*{suffix}") if path.name[0] != "."]
    if usual:
        return usual
    others = [
        path
        for path in root.glob(f"*/**/*{suffix}")
        if path.name[0] != "." and path.relative_to(root).parts[0][0] != "."
        if path.relative_to(root).parts[0] != "meta"
    ]
    for name in sorted({path.relative_to(root).parts[0] for path in others}):
        report.add(f"{folder}/", f"it has no files, but {name}/ has", f"read from {name}/")
    return others


def _found(root: Path, path: Path) -> FoundFile:
    folders = path.relative_to(root).parts[1:-1]
    chunks = [match[1] for each in folders if (match := _CHUNK.fullmatch(each))]
    named = [each for each in folders if not _CHUNK.fullmatch(each)]
    number = _NUMBER.search(path.stem)
    return FoundFile(
        path,
        chunk=int(chunks[0]) if chunks else 0,
        number=int(number[1]) if number else 0,
        camera=".".join(named),
    )


def _ordered(files: list[FoundFile]) -> list[FoundFile]:
    return sorted(files, key=lambda file: (file.chunk, file.number, str(file.path)))
