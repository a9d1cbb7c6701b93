"""Copy episodes of datasets into a new one: the basis of conversion, merging and removal.

Numbers are copied as columns and videos as packets, so that nothing is decoded and nothing lost.
The sources are only read; the target appears atomically.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import av
import numpy as np
import pyarrow as pa

from manyhands.data.images.encoder import stream_info
from manyhands.data.writing.copy_clips import CameraClips, EpisodeStats
from manyhands.data.writing.copy_rows import Columns, EpisodeRows
from manyhands.data.writing.copy_sources import (
    SUBTASKS_FILE,
    CopySource,
    EpisodeChoice,
    check_compatible,
    check_target,
    merged_robot,
    merged_tools,
    merged_video_info,
    open_source,
)
from manyhands.data.writing.dataset_folder import DatasetFolder
from manyhands.data.writing.output_files import SizeLimits
from manyhands.errors import DatasetError
from manyhands.lerobot_format import names
from manyhands.lerobot_format.dataset.data_files import described_table
from manyhands.lerobot_format.dataset.episode_stats import joined_labels
from manyhands.os_errors import reason_of, writing_remedy

Progress = Callable[[int, int], None]  # Called with the number of episodes copied so far and of all


@dataclass(frozen=True)
class CopySummary:
    """Totals of a copy."""

    num_datasets: int
    num_episodes: int
    num_frames: int
    num_tasks: int
    num_clips: int  # Videos of one episode and one camera
    num_encoded_clips: int  # Those that did not begin with a keyframe and were re-encoded
    dropped_columns: list[str]  # Columns of no feature, which readers of version 3.0 reject
    num_bytes: int
    wall_s: float
    skipped: list[str] = field(default_factory=list)  # Notes on episodes with faults


def copy_episodes(
    choices: Sequence[EpisodeChoice],
    target: Path,
    on_progress: Progress = lambda done, total: None,
    allow_mixed_robots: bool = False,
    limits: SizeLimits | None = None,
) -> CopySummary:
    """Copy episodes, in the order of the choices, into a new dataset of version 3.0."""
    start = time.monotonic()
    if not choices:
        raise DatasetError("no source dataset given")
    sources = [open_source(choice) for choice in choices]
    check_compatible(sources, allow_mixed_robots)
    check_target(sources, target)
    with _new_folder(sources, target, limits) as folder:
        _number_tasks(sources, folder)
        copiers = [_Copier(source, folder) for source in sources]
        num_episodes = sum(len(source.episodes) for source in sources)
        for copier in copiers:
            copier.copy(lambda: on_progress(folder.num_episodes, num_episodes))
        num_encoded = _declare_encoded(folder, copiers)
        if sources[0].subtasks is not None:
            folder.put(SUBTASKS_FILE, sources[0].subtasks)
        folder.finish(joined_labels([source.labels for source in sources]))
    return CopySummary(
        num_datasets=len(sources),
        num_episodes=folder.num_episodes,
        num_frames=folder.num_frames,
        num_tasks=folder.num_tasks,
        num_clips=folder.num_episodes * len(folder.info.video_keys),
        num_encoded_clips=num_encoded,
        dropped_columns=sorted({column for each in copiers for column in each.rows.undeclared}),
        num_bytes=sum(path.stat().st_size for path in target.rglob("*") if path.is_file()),
        wall_s=time.monotonic() - start,
        skipped=[f"{source.root}: {source.note}" for source in sources if source.note],
    )


@contextmanager
def _new_folder(
    sources: Sequence[CopySource], target: Path, limits: SizeLimits | None
) -> Iterator[DatasetFolder]:
    """A folder that is discarded, with its faults reported, unless it is finished."""
    folder = None
    try:
        features = dict(sources[0].features)
        for key, feature in features.items():
            infos = [source.features[key].info for source in sources]
            features[key] = replace(feature, info=merged_video_info(infos))
        fps, robot = sources[0].fps, merged_robot(sources)
        folder = DatasetFolder(target, fps, features, robot, limits)
        folder.info = replace(folder.info, tools=merged_tools(sources))
        yield folder
    except (OSError, av.FFmpegError, pa.ArrowException) as error:
        remedy = writing_remedy(error, "Set another --output")
        raise DatasetError(f"cannot write {target}: {reason_of(error)}. {remedy}") from None
    finally:
        if folder is not None:
            folder.discard()


def _number_tasks(sources: Sequence[CopySource], folder: DatasetFolder) -> None:
    """Give tasks their numbers: those in use, in the order the datasets number them."""
    for source in sources:
        meta = source.dataset.meta
        used = [task for episode in source.episodes for task in meta.episodes.tasks[episode]]
        is_used = set(used)
        for task in [*meta.tasks, *used]:
            if task in is_used:
                folder.task_number(task)


def _declare_encoded(folder: DatasetFolder, copiers: Sequence["_Copier"]) -> int:
    """Report cameras with re-encoded clips; return their number."""
    features, total = dict(folder.info.features), 0
    for key in folder.info.video_keys:
        num_encoded = sum(copier.clips[key].num_encoded for copier in copiers)
        total += num_encoded
        if num_encoded:
            _, height, width = features[key].channel_first_shape
            assert isinstance(folder.info.fps, int)
            ours = stream_info(folder.info.fps, height, width)
            features[key] = replace(
                features[key], info=merged_video_info([features[key].info, ours])
            )
    folder.info = replace(folder.info, features=features)
    return total


class _Copier:
    def __init__(self, source: CopySource, folder: DatasetFolder) -> None:
        self._source = source
        self._folder = folder
        self._meta = source.dataset.meta
        self.rows = EpisodeRows(source.dataset, source.features)
        self._stats = EpisodeStats(source.dataset, source.features, source.episodes)
        self.clips = {
            key: CameraClips(source.dataset, key, source.fps) for key in folder.info.video_keys
        }

    def copy(self, on_episode: Callable[[], None]) -> None:
        features = self._folder.info.features
        for episode in self._source.episodes:
            columns = self.rows.read(episode)
            tasks = self._renumber(columns, episode)
            clips = {key: each.clip(episode) for key, each in self.clips.items()}
            stats = self._stats.of(episode, columns)
            stored = {key: columns[key] for key in features if key in columns}
            self._folder.add(described_table(stored, features), clips, tasks, stats)
            on_episode()
        for each in self.clips.values():
            each.close()

    def _renumber(self, columns: Columns, episode: int) -> list[str]:
        """Number rows by their order in the copy; return the strings of their tasks."""
        num_rows = len(columns[names.INDEX])
        used, place = np.unique(columns[names.TASK_INDEX].to_numpy(), return_inverse=True)
        if used[0] < 0 or used[-1] >= len(self._meta.tasks):
            raise DatasetError(
                f"{self._source.root}: episode {episode} refers to task "
                f"{used[-1] if used[0] >= 0 else used[0]}, but the dataset has "
                f"{len(self._meta.tasks)} tasks"
            )
        texts = [self._meta.tasks[number] for number in used.tolist()]
        numbers = np.array([self._folder.task_number(text) for text in texts])
        columns[names.TASK_INDEX] = pa.array(numbers[place])
        columns[names.EPISODE_INDEX] = pa.array(np.full(num_rows, self._folder.num_episodes))
        columns[names.INDEX] = pa.array(np.arange(num_rows) + self._folder.num_frames)
        return list(dict.fromkeys([*self._meta.episodes.tasks[episode], *texts]))
