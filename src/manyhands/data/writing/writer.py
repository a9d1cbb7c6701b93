"""Writes datasets that LeRobot reads: frames in, a folder out that appears whole or not at all."""

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from manyhands.atomic import flush
from manyhands.data.pictures.encoder import stream_facts
from manyhands.data.stats import aggregate_stats
from manyhands.data.writing.output_files import MEGABYTE, ClipFiles, FrameFiles, SizeLimits
from manyhands.data.writing.recording import EpisodeRecording
from manyhands.errors import DatasetError
from manyhands.lerobot_format import names
from manyhands.lerobot_format.dataset import write_stats
from manyhands.lerobot_format.dataset_info import DatasetInfo, Feature, parse_features, write_info
from manyhands.lerobot_format.episodes import EpisodeRecord, write_episodes
from manyhands.lerobot_format.frames import MAX_DIMS, frame_table
from manyhands.lerobot_format.tasks import write_tasks


class DatasetWriter:
    """A dataset being recorded; a `with` block finalizes it, or discards it on an error."""

    @classmethod
    def create(
        cls,
        root: Path,
        fps: int,
        features: Mapping[str, Mapping[str, Any]],
        robot_type: str | None = None,
        limits: SizeLimits | None = None,
    ) -> Self:
        """Begin a dataset in a folder that does not exist yet; features are in LeRobot's form."""
        if root.exists():
            raise DatasetError(f"{root} exists already; a dataset needs a folder of its own")
        if isinstance(fps, bool) or not isinstance(fps, int) or fps < 1:
            raise DatasetError(f"fps must be a positive integer, not {fps!r}")
        limits = limits or SizeLimits()
        all_features = _checked_features(features, fps)
        has_video = any(feature.dtype == names.VIDEO for feature in all_features.values())
        info = DatasetInfo(
            codebase_version=names.CODEBASE_VERSION,
            fps=fps,
            features=all_features,
            video_path=names.VIDEO_PATH if has_video else None,
            robot_type=robot_type,
            chunks_size=limits.files_per_chunk,
            data_files_size_in_mb=max(1, limits.data_file_bytes // MEGABYTE),
            video_files_size_in_mb=max(1, limits.video_file_bytes // MEGABYTE),
        )
        return cls(root, fps, info, limits)

    def __init__(self, root: Path, fps: int, info: DatasetInfo, limits: SizeLimits) -> None:
        self._root = root
        self._fps = fps
        self._info = info
        self._folder = root.with_name(f".{root.name}.partial")
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        self._recording: EpisodeRecording | None = None
        self._records: list[EpisodeRecord] = []
        self._tasks: dict[str, int] = {}
        self._frame_files = FrameFiles(self._folder, limits)
        self._clip_files = {
            key: ClipFiles(self._folder, key, fps, limits) for key in info.video_keys
        }
        self._is_open = True

    @property
    def num_episodes(self) -> int:
        """Episodes saved so far."""
        return len(self._records)

    @property
    def num_frames(self) -> int:
        """Frames in the episodes saved so far."""
        return self._records[-1].to_index if self._records else 0

    def add_frame(self, frame: Mapping[str, Any]) -> None:
        """Append a frame to the episode: a value for every feature, and `task`, a text."""
        self._check_open()
        if self._recording is None:
            self._recording = EpisodeRecording(self._fps, self._info.features)
        self._recording.add(frame)

    def save_episode(self) -> None:
        """End the episode and write it."""
        self._check_open()
        recording, self._recording = self._recording, None
        if recording is None or len(recording) == 0:
            raise DatasetError("an episode needs at least one frame; add_frame() was not called")
        columns = recording.columns() | self._reserved_columns(recording)
        stats = recording.stats(columns)
        columns[names.TIMESTAMP] = columns[names.TIMESTAMP].astype(np.float32)
        data_file = self._frame_files.append(frame_table(columns, self._info.features))
        videos = {
            key: self._clip_files[key].append(clip, len(recording))
            for key, clip in recording.clips().items()
        }
        stop = self.num_frames + len(recording)
        tasks = list(dict.fromkeys(recording.tasks))
        record = EpisodeRecord(tasks, self.num_frames, stop, data_file, stats, videos)
        self._records.append(record)

    def finalize(self) -> None:
        """Finish the files and put the folder in its place."""
        self._check_open()
        if self._recording is not None:
            raise DatasetError(
                f"{len(self._recording)} frames belong to no episode; call save_episode() first"
            )
        if not self._records:
            raise DatasetError("a dataset needs at least one episode; none was saved")
        self._close_files()
        write_tasks(self._folder, list(self._tasks))
        write_stats(self._folder, aggregate_stats([record.stats for record in self._records]))
        write_episodes(self._folder, self._records)
        write_info(self._folder, self._final_info())
        for path in self._folder.rglob("*"):
            flush(path)
        self._folder.rename(self._root)
        self._is_open = False

    def discard(self) -> None:
        """Give up a recording that is not finalized; nothing of it remains."""
        if self._is_open:
            self._is_open = False
            try:
                self._close_files()
            finally:
                shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if self._is_open and kind is None:
                self.finalize()
        finally:
            self.discard()

    def _check_open(self) -> None:
        if not self._is_open:
            raise DatasetError(f"{self._root} is finished; nothing can be added to it")

    def _close_files(self) -> None:
        self._frame_files.close()
        for files in self._clip_files.values():
            files.close()

    def _reserved_columns(self, recording: EpisodeRecording) -> dict[str, np.ndarray]:
        """The columns every dataset has; times in full precision, as statistics want them."""
        frame_index = np.arange(len(recording))
        tasks = [self._tasks.setdefault(task, len(self._tasks)) for task in recording.tasks]
        return {
            names.TIMESTAMP: frame_index / self._fps,
            names.FRAME_INDEX: frame_index,
            names.EPISODE_INDEX: np.full(len(recording), self.num_episodes),
            names.INDEX: frame_index + self.num_frames,
            names.TASK_INDEX: np.array(tasks),
        }

    def _final_info(self) -> DatasetInfo:
        return replace(
            self._info,
            total_episodes=self.num_episodes,
            total_frames=self.num_frames,
            total_tasks=len(self._tasks),
            splits={"train": f"0:{self.num_episodes}"},
        )


def _checked_features(features: Mapping[str, Mapping[str, Any]], fps: int) -> dict[str, Feature]:
    """Features as they will be declared: what the user names, then what every dataset has."""
    taken = [key for key in features if key in names.RESERVED_FEATURES or key == names.TASK]
    if taken:
        raise DatasetError(f"the feature names {', '.join(taken)} are taken by the dataset itself")
    try:
        parsed = parse_features(features)
    except ValueError as error:
        raise DatasetError(f"features: {error}") from None
    checked = {key: _checked_feature(key, feature, fps) for key, feature in parsed.items()}
    reserved = {key: Feature(dtype, (1,)) for key, dtype in names.RESERVED_FEATURES.items()}
    return checked | reserved


def _checked_feature(key: str, feature: Feature, fps: int) -> Feature:
    if feature.dtype == names.LANGUAGE or feature.is_depth:
        raise DatasetError(f"feature {key}: depth and {names.LANGUAGE} values cannot be written")
    if not feature.is_camera:
        if not 1 <= len(feature.shape) <= MAX_DIMS:
            raise DatasetError(f"feature {key} must have 1 to {MAX_DIMS} dimensions")
        return feature
    if not isinstance(feature.names, list | tuple) or len(feature.names) != 3:
        raise DatasetError(f"camera {key} needs the names of its axes: height, width, channels")
    channels, height, width = feature.channel_first_shape
    if feature.dtype == names.IMAGE:
        return feature
    if channels != 3 or height % 2 or width % 2:
        raise DatasetError(
            f"camera {key} of {height}x{width}x{channels} cannot be a video, which needs three "
            f"channels and even sizes; declare its dtype as {names.IMAGE}"
        )
    return replace(feature, info=stream_facts(fps, height, width))
