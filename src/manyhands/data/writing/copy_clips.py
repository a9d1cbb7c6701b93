"""The videos of one camera by episode, copied as encoded wherever possible."""

from pathlib import Path

import numpy as np
import pyarrow as pa

from manyhands.data.build_columns import image_source
from manyhands.data.episodes import Source
from manyhands.data.images.cameras import ImageSource
from manyhands.data.images.encoder import ClipEncoder
from manyhands.data.images.packets import Clip, EncodedVideo
from manyhands.data.read_options import ReadOptions
from manyhands.data.statistics import image_stats, number_stats, sampled_frames, subsampled
from manyhands.data.writing.copy_rows import Columns
from manyhands.errors import DatasetError
from manyhands.lerobot_format import names
from manyhands.lerobot_format.dataset.episode_stats import read_episode_stats
from manyhands.lerobot_format.dataset.features import Feature
from manyhands.types import Stats


class CameraClips:
    """Clips of a dataset's camera; the file cut from last stays open."""

    def __init__(self, source: Source, key: str, fps: int) -> None:
        self.num_encoded = 0  # Clips that could not be cut and were re-encoded
        self._source = source
        self._key = key
        self._fps = fps
        self._feature = source.meta.info.features[key]
        self._pictures = image_source(source, ReadOptions(), key)
        self._path: Path | None = None
        self._video: EncodedVideo | None = None

    def clip(self, episode: int) -> Clip:
        """The frames of an episode."""
        episodes = self._source.meta.episodes
        files = episodes.video_files[self._key]
        path = self._source.root / files.paths[files.of_episode[episode]]
        if self._video is None or path != self._path:
            self.close()
            self._path, self._video = path, EncodedVideo(path, self._fps)
        first = round(float(episodes.video_starts_s[self._key][episode]) * self._fps)
        clip = self._video.cut(first, int(episodes.lengths[episode]))
        return self._encoded(episode) if clip is None else clip

    def close(self) -> None:
        """Give the file that is open."""
        if self._video is not None:
            self._video.close()
        self._path, self._video = None, None

    def _encoded(self, episode: int) -> Clip:
        """An episode that begins between keyframes, decoded and re-encoded."""
        if self._feature.is_depth:
            raise DatasetError(
                f"{self._path}: episode {episode} does not start with a keyframe, and depth "
                f"is not re-encoded. Exclude it: --exclude_episodes=[{episode}]"
            )
        self.num_encoded += 1
        _, height, width = self._feature.channel_first_shape
        encoder = ClipEncoder(self._fps, height, width)
        episodes = self._source.meta.episodes
        frames = np.arange(episodes.from_index[episode], episodes.to_index[episode])
        try:
            for picture in self._pictures.pictures(frames):
                encoder.add(picture.transpose(1, 2, 0))
        except DatasetError:
            encoder.abandon()
            raise
        return encoder.finish()


_RENUMBERED = (names.EPISODE_INDEX, names.INDEX, names.TASK_INDEX)
_NEEDED = {"min", "max", "mean", "std", "count"}


class EpisodeStats:
    """Statistics of one dataset's episodes."""

    def __init__(self, source: Source, features: dict[str, Feature], episodes: list[int]) -> None:
        self._source = source
        self._features = features
        found = read_episode_stats(source.root, source.meta.info, np.array(episodes))
        self._found = dict(zip(episodes, found or [], strict=found is not None))
        self._pictures: dict[str, ImageSource] = {}

    def of(self, episode: int, columns: Columns) -> Stats:
        """Statistics of an episode, whose columns are given as the copy holds them."""
        found = self._found.get(episode, {})
        stats: Stats = {}
        for key, feature in self._features.items():
            if _holds(key, found, feature):
                stats[key] = found[key]
            elif feature.is_number:
                stats[key] = number_stats(column_numbers(columns[key], feature.shape))
            elif feature.is_camera:
                stats[key] = self._camera_stats(key, episode)
        return stats

    def _camera_stats(self, key: str, episode: int) -> dict[str, np.ndarray]:
        feature, episodes = self._features[key], self._source.meta.episodes
        if key not in self._pictures:
            reading = ReadOptions(depth_unit=feature.depth_unit or "mm")
            self._pictures[key] = image_source(self._source, reading, key)
        frames = sampled_frames(int(episodes.lengths[episode])) + episodes.from_index[episode]
        pictures = [
            subsampled(picture.transpose(1, 2, 0)).copy()
            for picture in self._pictures[key].pictures(frames)
        ]
        return image_stats(pictures, feature.is_depth)


def _holds(key: str, found: Stats, feature: Feature) -> bool:
    """Whether statistics are there, hold for the copy too, and have the recorder's shape."""
    if key in _RENUMBERED or not found.get(key, {}).keys() >= _NEEDED:
        return False
    shape = (feature.channel_first_shape[0], 1, 1) if feature.is_camera else feature.shape[-1:]
    return all(
        value.shape == ((1,) if name == "count" else shape or (1,))
        for name, value in found[key].items()
    )


def column_numbers(column: pa.Array, shape: tuple[int, ...]) -> np.ndarray:
    """The numbers of a column in its feature's shape."""
    flat = column
    for _ in shape if shape != (1,) else ():
        flat = flat.flatten()
    values: np.ndarray = flat.to_numpy(zero_copy_only=False)
    return values.reshape(len(column), *shape)
