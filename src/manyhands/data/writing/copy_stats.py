"""Statistics of copied episodes: those the dataset has, and the rest computed."""

import numpy as np
import pyarrow as pa

from manyhands.data.assembly import picture_source
from manyhands.data.complete_stats import number_stats_of_depth
from manyhands.data.pictures.source import PictureSource
from manyhands.data.reading import Reading
from manyhands.data.selection import Source
from manyhands.data.stats import number_stats, picture_stats, sampled_frames, thinned
from manyhands.data.writing.copy_rows import Columns
from manyhands.lerobot_format import names
from manyhands.lerobot_format.episode_stats import read_episode_stats
from manyhands.lerobot_format.feature import Feature
from manyhands.types import Stats

_RENUMBERED = (names.EPISODE_INDEX, names.INDEX, names.TASK_INDEX)
_NEEDED = {"min", "max", "mean", "std", "count"}


class EpisodeStats:
    """Statistics of one dataset's episodes."""

    def __init__(self, source: Source, features: dict[str, Feature], episodes: list[int]) -> None:
        self._source = source
        self._features = features
        found = read_episode_stats(source.root, source.meta.info, np.array(episodes))
        self._found = dict(zip(episodes, found or [], strict=found is not None))
        self._pictures: dict[str, PictureSource] = {}

    def of(self, episode: int, columns: Columns) -> Stats:
        """Statistics of an episode, whose columns are given as the copy holds them."""
        found = self._found.get(episode, {})
        stats: Stats = {}
        for key, feature in self._features.items():
            if _holds(key, found, feature):
                stats[key] = found[key]
            elif feature.is_number:
                stats[key] = number_stats(_numbers(columns[key], feature.shape))
            elif feature.is_camera:
                stats[key] = self._camera_stats(key, episode)
        return stats

    def _camera_stats(self, key: str, episode: int) -> dict[str, np.ndarray]:
        feature, episodes = self._features[key], self._source.meta.episodes
        if key not in self._pictures:
            reading = Reading(depth_unit=feature.depth_unit or "mm")
            self._pictures[key] = picture_source(self._source, reading, key)
        frames = sampled_frames(int(episodes.lengths[episode])) + episodes.from_index[episode]
        pictures = [
            thinned(picture.transpose(1, 2, 0)).copy()
            for picture in self._pictures[key].pictures(frames)
        ]
        return number_stats_of_depth(pictures) if feature.is_depth else picture_stats(pictures)


def _holds(key: str, found: Stats, feature: Feature) -> bool:
    """Whether statistics are there, hold for the copy too, and have the recorder's shape."""
    if key in _RENUMBERED or not found.get(key, {}).keys() >= _NEEDED:
        return False
    shape = (feature.channel_first_shape[0], 1, 1) if feature.is_camera else feature.shape[-1:]
    return all(
        value.shape == ((1,) if name == "count" else shape or (1,))
        for name, value in found[key].items()
    )


def _numbers(column: pa.Array, shape: tuple[int, ...]) -> np.ndarray:
    flat = column
    for _ in shape if shape != (1,) else ():
        flat = flat.flatten()
    values: np.ndarray = flat.to_numpy(zero_copy_only=False)
    return values.reshape(len(column), *shape)
