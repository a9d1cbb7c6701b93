"""From a dataset's features to columns that can be read."""

from collections.abc import Collection

import numpy as np

from manyhands.data.columns import Column, NumberColumn, ObjectColumn, TextColumn
from manyhands.data.frames import FrameTable, load_frames
from manyhands.data.pictures.cameras import ImageColumn, VideoColumn, locate_clips
from manyhands.data.pictures.stored_bytes import StoredBytes
from manyhands.data.pictures.video import VideoReader
from manyhands.data.selection import Source
from manyhands.errors import DatasetError
from manyhands.lerobot_format import names

_ALWAYS_READ = (names.INDEX, names.FRAME_INDEX, names.TASK_INDEX)


def build_columns(source: Source, skip: Collection[str]) -> dict[str, Column]:
    """A column per feature that is not in `skip`, and one for the task's text."""
    features = source.meta.info.features
    _check_reserved(source)
    kept = [key for key in features if key not in skip]
    in_table = [key for key in features if features[key].dtype != names.VIDEO]
    frames = load_frames(source, [key for key in in_table if key in kept or key in _ALWAYS_READ])
    pictures = StoredBytes(source)
    reader = VideoReader(source.meta.info.fps)

    def build(key: str) -> Column:
        feature = features[key]
        if feature.is_depth:
            raise DatasetError(f"{key} records depth, which cannot be read; leave that camera out")
        if feature.dtype == names.VIDEO:
            clips = locate_clips(source, key, frames.numbers[names.FRAME_INDEX])
            return VideoColumn(feature.channel_first_shape, clips, reader)
        if feature.dtype == names.IMAGE:
            return ImageColumn(key, feature.channel_first_shape, pictures)
        if feature.is_number:
            return NumberColumn(frames.numbers[key])
        return ObjectColumn(frames.objects[key])

    tasks = TextColumn(source.meta.tasks, _task_numbers(source, frames))
    return {key: build(key) for key in kept} | {names.TASK: tasks}


def _check_reserved(source: Source) -> None:
    features = source.meta.info.features
    absent = [key for key in _ALWAYS_READ if key not in features]
    if absent:
        raise DatasetError(f"{source.root / names.INFO_FILE}: no feature {', '.join(absent)}")


def _task_numbers(source: Source, frames: FrameTable) -> np.ndarray:
    numbers = frames.numbers[names.TASK_INDEX]
    if numbers.min() < 0 or numbers.max() >= len(source.meta.tasks):
        raise DatasetError(
            f"{source.root / names.TASKS_FILE} holds {len(source.meta.tasks)} tasks, "
            f"but frames name task {numbers.max() if numbers.min() >= 0 else numbers.min()}"
        )
    return numbers
