"""Identity of cached frames: digests of their files, and the store name made from them.

A file is read completely once; its digest is cached with a stamp that changes whenever the file
does, because the time of a file's last status change cannot be set back.
"""

import json
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from hashlib import blake2b, file_digest
from pathlib import Path
from typing import NamedTuple

import av

from manyhands.atomic import atomic_file
from manyhands.cores import num_cores
from manyhands.data.locks import locked, read_stamp
from manyhands.lerobot_format.dataset.unusable_file import unreadable_file

DIGESTS_FOLDER = "digests"
_DIGEST_BYTES = 20
# Raised whenever frames come out differently from the same files.
_REVISION = 1
# Two changes within one tick of a file system's clock leave the same stamp.
_TICK_S = 2.0

DigestIndex = dict[str, list[str]]  # Stamp and digest by the file's path


@dataclass(frozen=True)
class PixelOrigin:
    """Everything that decides the pixels behind a frame number."""

    file_digests: Sequence[str]  # Digests of the files that hold the images, in their order
    table_digest: str  # Digest of the location of every frame in those files
    shape: tuple[int, ...]
    dtype: str
    encoding: str
    resize: tuple[int, int] | None = None


def store_key(origin: PixelOrigin) -> str:
    """A name that frames have in common only if all their pixels are equal."""
    libraries = {name: av.library_versions[name] for name in ("libavcodec", "libswscale")}
    facts = {"revision": _REVISION, "libraries": libraries, **asdict(origin)}
    text = json.dumps(facts, sort_keys=True)
    return blake2b(text.encode(), digest_size=_DIGEST_BYTES).hexdigest()


class _File(NamedTuple):
    path: Path
    stamp: str
    place: str  # The path without links
    memo: Path  # File that caches the digests of its folder


def file_stamp(path: Path) -> str:
    """A string that changes with a file's content or path, made without reading it."""
    return f"{read_stamp(path)} {path.resolve()}"


def file_digests(paths: Sequence[Path], home: Path) -> list[str]:
    """The digests of files, cached under `home` unless that is read-only."""
    files = [_look_up(path, home / DIGESTS_FOLDER) for path in paths]
    known = _recall(files)
    unknown = [file for file in files if file.stamp not in known]
    if unknown:
        known |= _compute(unknown)
    return [known[file.stamp] for file in files]


def _look_up(path: Path, folder: Path) -> _File:
    stamp = file_stamp(path)
    place = stamp.split(" ", 4)[4]
    # One memo for all files of a folder: a dataset may have a file for every episode.
    name = blake2b(str(Path(place).parent).encode(), digest_size=_DIGEST_BYTES).hexdigest()
    return _File(path, stamp, place, folder / f"{name}.json")


def _compute(files: list[_File]) -> dict[str, str]:
    """Digests by stamp, read from the files unless another process is just doing that."""
    folder = files[0].memo.parent
    with ExitStack() as stack:
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            stack.enter_context(locked(files[0].memo.with_suffix(".lock")))
        known = _recall(files)
        unknown = [file for file in files if file.stamp not in known]
        with ThreadPoolExecutor(num_cores()) as threads:
            digests = [*threads.map(_digest, unknown)]
        known |= {file.stamp: digest for file, digest in zip(unknown, digests, strict=True)}
        with suppress(OSError), locked(folder / ".lock"):
            _remember([file for file in unknown if _is_settled(file)], known)
    return known


def _digest(file: _File) -> str:
    try:
        with file.path.open("rb") as content:
            return file_digest(content, lambda: blake2b(digest_size=_DIGEST_BYTES)).hexdigest()
    except OSError as error:
        raise unreadable_file(file.path, error) from None


def _is_settled(file: _File) -> bool:
    """Whether the next change of the file is sure to change its stamp."""
    age_s = time.time() - file.path.stat().st_ctime
    return age_s > _TICK_S and file_stamp(file.path) == file.stamp


def _recall(files: list[_File]) -> dict[str, str]:
    remembered: DigestIndex = {}
    for path in {file.memo for file in files}:
        remembered |= _read_memo(path)
    return {
        file.stamp: remembered[file.place][1]
        for file in files
        if remembered.get(file.place, [""])[0] == file.stamp
    }


def _remember(files: list[_File], digests: dict[str, str]) -> None:
    for path in {file.memo for file in files}:
        mine = [file for file in files if file.memo == path]
        messages = {file.place: [file.stamp, digests[file.stamp]] for file in mine}
        with atomic_file(path) as scratch:
            scratch.write_text(json.dumps(_read_memo(path) | messages), encoding="utf-8")


def _read_memo(path: Path) -> DigestIndex:
    with suppress(OSError, ValueError, TypeError, AttributeError):
        memo = json.loads(path.read_text(encoding="utf-8"))
        return {str(place): [str(stamp), str(digest)] for place, (stamp, digest) in memo.items()}
    return {}
