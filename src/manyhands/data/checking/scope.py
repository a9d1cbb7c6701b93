"""The scope of a check, in words."""

from collections.abc import Collection

import numpy as np

from manyhands.data.checking import finding as checks
from manyhands.data.selection import Source
from manyhands.lerobot_format import names
from manyhands.lerobot_format.episodes import FileColumn


def scope_of(source: Source, keys: Collection[str], is_full: bool) -> dict[str, str]:
    """By check, for a dataset whose metadata could be read."""
    info, meta = source.meta.info, source.meta
    features = {key: info.features[key] for key in keys}
    frames = counted(source.selection.num_rows, "frame")
    numbers = [key for key, feature in features.items() if feature.is_number]
    described = [key for key, feature in features.items() if feature.is_number or feature.is_camera]
    stored = [key for key, feature in features.items() if feature.dtype != names.VIDEO]
    return {
        checks.METADATA: f"{info.codebase_version}, {counted(len(info.features), 'feature')}",
        checks.EPISODES: f"{counted(len(source.selection.episodes), 'episode')}, {frames}",
        checks.FILES: _files(source, keys),
        checks.COLUMNS: counted(len(stored), "column"),
        checks.NUMBERING: frames,
        checks.TIMESTAMPS: frames,
        checks.TASKS: counted(len(meta.tasks), "task"),
        checks.NUMBERS: counted(len(numbers), "column"),
        checks.STATISTICS: counted(
            len([key for key in described if key not in names.RESERVED_FEATURES]), "feature"
        ),
        checks.VIDEOS: _cameras(source, keys, names.VIDEO, is_full),
        checks.PICTURES: _cameras(source, keys, names.IMAGE, is_full),
    }


def counted(number: int, noun: str) -> str:
    """A number of things."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _files(source: Source, keys: Collection[str]) -> str:
    table = source.meta.episodes
    videos = [files for key, files in table.video_files.items() if key in keys]
    data = counted(_num_files(source, table.data_files), "data file")
    if not videos:
        return data
    return f"{data}, {counted(sum(_num_files(source, each) for each in videos), 'video file')}"


def _num_files(source: Source, files: FileColumn) -> int:
    return len(np.unique(files.of_episode[source.selection.episodes]))


def _cameras(source: Source, keys: Collection[str], kind: str, is_full: bool) -> str:
    cameras = [key for key in keys if source.meta.info.features[key].dtype == kind]
    if not cameras:
        return "none"
    per = "file" if kind == names.VIDEO else "episode"
    which = (
        counted(source.selection.num_rows * len(cameras), "frame")
        if is_full
        else f"first and last frame of each {per}"
    )
    return f"{counted(len(cameras), 'camera')}, {which}"
