"""Writes datasets that LeRobot reads: frames in, a folder out that appears atomically."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from manyhands.data.images.encoder import stream_info
from manyhands.data.writing.dataset_folder import DatasetFolder
from manyhands.data.writing.episode_folder import EpisodeFolder
from manyhands.data.writing.episode_recording import EpisodeRecording
from manyhands.data.writing.output_files import SizeLimits
from manyhands.errors import DatasetError
from manyhands.lerobot_format import names
from manyhands.lerobot_format.dataset.data_files import frame_table
from manyhands.lerobot_format.dataset.features import MAX_DIMS
from manyhands.lerobot_format.dataset.info import Feature, parse_features


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
        if isinstance(fps, bool) or not isinstance(fps, int) or fps < 1:
            raise DatasetError(f"fps must be a positive integer, not {fps!r}")
        checked = checked_features(features, fps)
        return cls(fps, DatasetFolder(root, fps, checked, robot_type, limits))

    def __init__(self, fps: int, folder: EpisodeFolder) -> None:
        self._fps = fps
        self._folder = folder
        self._recording: EpisodeRecording | None = None

    @property
    def num_episodes(self) -> int:
        """Episodes saved so far."""
        return self._folder.num_episodes

    @property
    def num_frames(self) -> int:
        """Frames in the episodes saved so far."""
        return self._folder.num_frames

    def add_frame(self, frame: Mapping[str, Any]) -> None:
        """Append a frame to the episode: a value for every feature, and `task`, a string."""
        self._check_open()
        if self._recording is None:
            self._recording = EpisodeRecording(self._fps, self._folder.info.features)
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
        rows = frame_table(columns, self._folder.info.features)
        tasks = list(dict.fromkeys(recording.tasks))
        self._folder.add(rows, recording.clips(), tasks, stats)

    def finalize(self) -> None:
        """Finish the files and put the folder in its place."""
        self._check_open()
        if self._recording is not None:
            raise DatasetError(
                f"{len(self._recording)} frames belong to no episode. Call save_episode() first"
            )
        self._folder.finish()

    def discard(self) -> None:
        """Discard a recording that is not finalized; nothing of it remains."""
        self._folder.discard()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if self._folder.is_open and kind is None:
                self.finalize()
        finally:
            self.discard()

    def _check_open(self) -> None:
        if not self._folder.is_open:
            raise DatasetError(f"{self._folder.root} is finished; cannot add to it")

    def _reserved_columns(self, recording: EpisodeRecording) -> dict[str, np.ndarray]:
        """The columns every dataset has; times in full precision, as statistics want them."""
        frame_index = np.arange(len(recording))
        tasks = [self._folder.task_number(task) for task in recording.tasks]
        return {
            names.TIMESTAMP: frame_index / self._fps,
            names.FRAME_INDEX: frame_index,
            names.EPISODE_INDEX: np.full(len(recording), self.num_episodes),
            names.INDEX: frame_index + self.num_frames,
            names.TASK_INDEX: np.array(tasks),
        }


def checked_features(features: Mapping[str, Mapping[str, Any]], fps: int) -> dict[str, Feature]:
    """Features as they will be declared: what the user names, then what every dataset has."""
    taken = [key for key in features if key in names.RESERVED_FEATURES or key == names.TASK]
    if taken:
        raise DatasetError(f"feature names {', '.join(taken)} are reserved")
    try:
        parsed = parse_features(features)
    except ValueError as error:
        raise DatasetError(f"features: {error}") from None
    checked = {key: _checked_feature(key, feature, fps) for key, feature in parsed.items()}
    reserved = {key: Feature(dtype, (1,)) for key, dtype in names.RESERVED_FEATURES.items()}
    return checked | reserved


def _checked_feature(key: str, feature: Feature, fps: int) -> Feature:
    if feature.dtype == names.LANGUAGE or feature.is_depth:
        raise DatasetError(
            f"feature {key}: writing depth and {names.LANGUAGE} values is not supported"
        )
    if not feature.is_camera:
        if not 1 <= len(feature.shape) <= MAX_DIMS:
            raise DatasetError(f"feature {key} must have 1 to {MAX_DIMS} dimensions")
        return feature
    if not isinstance(feature.names, list | tuple) or len(feature.names) != 3:
        raise DatasetError(f"camera {key} needs axis names: height, width, channels")
    channels, height, width = feature.channel_first_shape
    if feature.dtype == names.IMAGE:
        return feature
    if channels != 3 or height % 2 or width % 2:
        raise DatasetError(
            f"camera {key} of {height}x{width}x{channels} cannot be a video, which needs "
            f"three channels and even sizes. Set its dtype to {names.IMAGE}"
        )
    return replace(feature, info=stream_info(fps, height, width))
