"""A dataset being written: a folder that gets its name when it is complete."""

import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import av
import pyarrow as pa

from manyhands.atomic import fsync_path
from manyhands.data.images.packets import Clip
from manyhands.data.writing.episode_folder import EpisodeFolder
from manyhands.data.writing.output_files import MEGABYTE, ClipFiles, FrameFiles, SizeLimits
from manyhands.errors import DatasetError
from manyhands.lerobot_format import names
from manyhands.lerobot_format.dataset.episodes import EpisodeRecord, write_episodes
from manyhands.lerobot_format.dataset.features import Feature
from manyhands.lerobot_format.dataset.info import DatasetInfo, write_info
from manyhands.lerobot_format.dataset.meta import write_stats
from manyhands.lerobot_format.dataset.statistics import aggregate_stats
from manyhands.lerobot_format.dataset.tasks import write_tasks
from manyhands.types import Stats


class DatasetFolder(EpisodeFolder):
    """Episodes are added one by one; nothing is there under `root` before `finish`."""

    def __init__(
        self,
        root: Path,
        fps: int,
        features: dict[str, Feature],
        robot_type: str | None = None,
        limits: SizeLimits | None = None,
    ) -> None:
        limits = limits or SizeLimits()
        super().__init__(root, empty_info(fps, features, robot_type, limits))
        self._scratch = root.with_name(f".{root.name}.partial")
        shutil.rmtree(self._scratch, ignore_errors=True)
        self._scratch.mkdir(parents=True)
        self._records: list[EpisodeRecord] = []
        self._frame_files = FrameFiles(self._scratch, limits)
        self._clip_files = {
            key: ClipFiles(self._scratch, key, fps, limits) for key in self.info.video_keys
        }

    @property
    def num_episodes(self) -> int:
        """Episodes added so far."""
        return len(self._records)

    @property
    def num_frames(self) -> int:
        """Frames of the episodes added so far."""
        return self._records[-1].to_index if self._records else 0

    def add(
        self, rows: pa.Table, clips: Mapping[str, Clip], tasks: Sequence[str], stats: Stats
    ) -> None:
        """Append an episode, whose rows are numbered to follow those already there."""
        data_file = self._frame_files.append(rows)
        videos = {key: self._clip_files[key].append(clip) for key, clip in clips.items()}
        stop = self.num_frames + rows.num_rows
        record = EpisodeRecord(list(tasks), self.num_frames, stop, data_file, stats, videos)
        self._records.append(record)

    def put(self, path: str, content: bytes) -> None:
        """Add an arbitrary file."""
        (self._scratch / path).parent.mkdir(parents=True, exist_ok=True)
        (self._scratch / path).write_bytes(content)

    def finish(self, labels: pa.Table | None = None) -> None:
        """Put the folder in its place, described; labels have an entry for every episode."""
        if not self._records:
            raise DatasetError("a dataset needs at least one episode; none was saved")
        self._close_files()
        records = _with_shared_stats(self._records)
        write_tasks(self._scratch, list(self._tasks))
        write_stats(self._scratch, aggregate_stats([record.stats for record in records]))
        write_episodes(self._scratch, records, labels)
        info = replace(
            self.info,
            total_episodes=self.num_episodes,
            total_frames=self.num_frames,
            total_tasks=self.num_tasks,
            splits={"train": f"0:{self.num_episodes}"},
        )
        write_info(self._scratch, info)
        for path in self._scratch.rglob("*"):
            fsync_path(path)
        self._scratch.rename(self.root)
        fsync_path(self.root.parent)
        self.is_open = False

    def discard(self) -> None:
        """Discard an unfinished dataset; nothing of it remains."""
        if not self.is_open:
            return
        self.is_open = False
        # Files that could not be written cannot be closed either.
        with suppress(OSError, av.FFmpegError, pa.ArrowException):
            self._close_files()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _close_files(self) -> None:
        self._frame_files.close()
        for files in self._clip_files.values():
            files.close()


def empty_info(
    fps: int, features: dict[str, Feature], robot_type: str | None, limits: SizeLimits
) -> DatasetInfo:
    """The metadata of a dataset without episodes."""
    has_video = any(feature.dtype == names.VIDEO for feature in features.values())
    return DatasetInfo(
        codebase_version=names.CODEBASE_VERSION,
        fps=fps,
        features=features,
        video_path=names.VIDEO_PATH if has_video else None,
        robot_type=robot_type,
        chunks_size=limits.files_per_chunk,
        data_files_size_in_mb=max(1, limits.data_file_bytes // MEGABYTE),
        video_files_size_in_mb=max(1, limits.video_file_bytes // MEGABYTE),
    )


def _with_shared_stats(records: Sequence[EpisodeRecord]) -> list[EpisodeRecord]:
    """Records with the statistics that all of them have: a column needs a value in every row."""
    columns = [{(key, name) for key in each.stats for name in each.stats[key]} for each in records]
    shared, trimmed = set.intersection(*columns), []
    for record in records:
        stats: Stats = {}
        for key, each in record.stats.items():
            own = {name: value for name, value in each.items() if (key, name) in shared}
            stats |= {key: own} if own else {}
        trimmed.append(replace(record, stats=stats))
    return trimmed
