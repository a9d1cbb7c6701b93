"""Import a dataset of another format, episode by episode; an interrupted import continues."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import av
import pyarrow as pa

from manyhands.data.importing.mapping import FeatureMapping
from manyhands.data.importing.source import ImportSource
from manyhands.data.writing.staged_folder import StagedFolder
from manyhands.data.writing.writer import DatasetWriter, checked_features
from manyhands.errors import DatasetError

Progress = Callable[[int, int], None]  # Called with the number of episodes imported and of all


@dataclass(frozen=True)
class ImportSummary:
    """Totals of an import."""

    format: str
    num_episodes: int
    num_resumed_episodes: int  # Those an interrupted import had completed
    num_frames: int
    num_bytes: int
    wall_s: float


def import_dataset(
    source: ImportSource,
    mapping: FeatureMapping,
    target: Path,
    episodes: Sequence[int],
    on_progress: Progress = lambda done, total: None,
) -> ImportSummary:
    """Write episodes of the source, in this order, into a new dataset of version 3.0."""
    start = time.monotonic()
    assert mapping.fps is not None
    features = checked_features(mapping.declared(source.columns), mapping.fps)
    identity = _identity(source, mapping, episodes)
    with _naming(target):
        folder = StagedFolder(target, mapping.fps, features, mapping.robot_type, identity)
        num_resumed = folder.num_episodes
        with DatasetWriter(mapping.fps, folder) as writer:
            for episode in episodes[num_resumed:]:
                on_progress(writer.num_episodes, len(episodes))
                _import_episode(source, mapping, episode, writer)
            on_progress(len(episodes), len(episodes))
    return ImportSummary(
        format=source.format,
        num_episodes=len(episodes),
        num_resumed_episodes=num_resumed,
        num_frames=folder.num_frames,
        num_bytes=sum(path.stat().st_size for path in target.rglob("*") if path.is_file()),
        wall_s=time.monotonic() - start,
    )


def chosen_episodes(
    source: ImportSource, episodes: Sequence[int] | None, exclude: Sequence[int]
) -> list[int]:
    """The numbers of the episodes to import, in order."""
    wanted = range(source.num_episodes) if episodes is None else episodes
    unknown = [each for each in (*wanted, *exclude) if not 0 <= each < source.num_episodes]
    if unknown:
        raise DatasetError(
            f"{source.path} has no episode {unknown[0]}; it has episodes 0 to "
            f"{source.num_episodes - 1}"
        )
    chosen = [each for each in wanted if each not in set(exclude)]
    if not chosen:
        raise DatasetError(f"{source.path}: no episodes left to import")
    return chosen


def _import_episode(
    source: ImportSource, mapping: FeatureMapping, episode: int, writer: DatasetWriter
) -> None:
    try:
        for frame in source.frames(episode, mapping.columns):
            writer.add_frame(mapping.frame(frame, source.columns))
        writer.save_episode()
    except DatasetError as error:
        raise DatasetError(
            f"{source.path}, episode {episode}: {error}. To skip it, set "
            f"--exclude_episodes=[{episode}]"
        ) from None


def _identity(source: ImportSource, mapping: FeatureMapping, episodes: Sequence[int]) -> str:
    """All that the result depends on, as text."""
    files = {str(file.absolute()): _stamp(file) for file in source.files}
    document: dict[str, Any] = {"format": source.format, "files": files}
    document |= {"mapping": mapping.document(), "episodes": list(episodes)}
    return json.dumps(document, indent=1)


def _stamp(file: Path) -> list[int]:
    status = file.stat()
    return [status.st_size, status.st_mtime_ns]


@contextmanager
def _naming(target: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, av.FFmpegError, pa.ArrowException) as error:
        reason = getattr(error, "strerror", None) or error
        raise DatasetError(
            f"cannot write {target}: {reason}. Free disk space, or set another --output; the same "
            "command continues after the last complete episode"
        ) from None
