"""List the files of a dataset to check, each with its episodes."""

from collections.abc import Collection, Iterator, Mapping

import numpy as np

from manyhands.data.checking.camera import Camera
from manyhands.data.checking.camera_file import CameraFile
from manyhands.data.checking.job import CheckedFile
from manyhands.data.checking.rows import RowFile, RowRules
from manyhands.data.checking.stretches import FilePart, Stretch
from manyhands.data.selection import Source
from manyhands.lerobot_format import names
from manyhands.lerobot_format.episodes import FileColumn


def files_to_check(source: Source, keys: Collection[str], is_full: bool) -> Iterator[CheckedFile]:
    """Every file of chosen episodes; rows come first, as they are the quickest to check."""
    info, episodes = source.meta.info, source.meta.episodes
    if names.INDEX not in info.features:
        return
    rows = _parts(source, episodes.data_files, episodes.first_rows_in_file())
    yield from _row_files(source, keys, rows)
    for key in [key for key in info.features if key in keys and info.features[key].is_camera]:
        camera = Camera(key, info.features[key], info.fps, is_full)
        if camera.feature.dtype == names.IMAGE:
            yield from (CameraFile(part, camera) for part in rows.values())
            continue
        starts = np.rint(episodes.video_starts_s[key] * info.fps).astype(np.int64)
        parts = _parts(source, episodes.video_files[key], starts)
        yield from (CameraFile(part, camera) for part in parts.values())


def _row_files(
    source: Source, keys: Collection[str], parts: Mapping[int, FilePart]
) -> Iterator[RowFile]:
    info, episodes = source.meta.info, source.meta.episodes
    features = {key: each for key, each in info.features.items() if each.dtype != names.VIDEO}
    rules = RowRules(features, frozenset(keys), info.fps, source.meta.tasks)
    members = episodes.data_files.members(np.arange(len(episodes)))
    for file, part in parts.items():
        held = [(episodes.from_index[each], episodes.to_index[each]) for each in members[file]]
        tasks = tuple(tuple(episodes.tasks[stretch.episode]) for stretch in part.stretches)
        yield RowFile(part, tuple((int(first), int(end)) for first, end in held), tasks, rules)


def _parts(source: Source, files: FileColumn, starts: np.ndarray) -> dict[int, FilePart]:
    """The files of chosen episodes that have frames; `starts` is where each begins in its file."""
    episodes, chosen = source.meta.episodes, source.selection.episodes
    lengths = episodes.lengths
    table = np.stack([np.arange(len(episodes)), episodes.from_index, lengths, starts], axis=1)
    return {
        file: FilePart(
            str(source.root), files.paths[file], tuple(Stretch(*row) for row in table[own].tolist())
        )
        for file, own in files.members(chosen[lengths[chosen] > 0]).items()
    }
