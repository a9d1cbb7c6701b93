"""Folders of a dataset that have another name than its path templates give them."""

import shlex
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath


def moved_folders(root: Path, missing: Iterable[str], known: Iterable[str]) -> dict[Path, Path]:
    """Folders that hold missing files, with the place they belong to; `known` are all paths."""
    expected = {root / folder for path in known for folder in PurePosixPath(path).parents}
    moved: dict[Path, Path] = {}
    for path in missing:
        for folder, rest in _first_absent(root, PurePosixPath(path)):
            if folder not in moved.values():
                moved |= {each: folder for each in _holders(folder, rest) if each not in expected}
    return moved


def _first_absent(root: Path, path: PurePosixPath) -> Iterator[tuple[Path, PurePosixPath]]:
    """The first folder of a path that does not exist, and the rest of the path below it."""
    for place in range(1, len(path.parts)):
        folder = root.joinpath(*path.parts[:place])
        if not folder.is_dir():
            yield folder, PurePosixPath(*path.parts[place:])
            return


def _holders(folder: Path, rest: PurePosixPath) -> list[Path]:
    """The folder beside a missing one that has its file; none if several have."""
    try:
        found = [each for each in folder.parent.iterdir() if (each / rest).is_file()]
    except OSError:
        return []
    return found if len(found) == 1 else []


def move_command(moved: Mapping[Path, Path]) -> str:
    """The shell command that gives folders their names."""
    commands = (f"mv {shlex.quote(str(old))} {shlex.quote(str(new))}" for old, new in moved.items())
    return " && ".join(commands)
