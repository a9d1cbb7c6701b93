"""The videos of one camera by episode, copied as encoded wherever possible."""

from pathlib import Path

import numpy as np

from manyhands.data.assembly import picture_source
from manyhands.data.pictures.encoder import ClipEncoder
from manyhands.data.pictures.packets import Clip, EncodedVideo
from manyhands.data.reading import Reading
from manyhands.data.selection import Source
from manyhands.errors import DatasetError


class CameraClips:
    """Clips of a dataset's camera; the file cut from last stays open."""

    def __init__(self, source: Source, key: str, fps: int) -> None:
        self.num_encoded = 0
        """Clips that could not be cut and were re-encoded."""
        self._source = source
        self._key = key
        self._fps = fps
        self._feature = source.meta.info.features[key]
        self._pictures = picture_source(source, Reading(), key)
        self._path: Path | None = None
        self._video: EncodedVideo | None = None

    def clip(self, episode: int) -> Clip:
        """The frames of an episode."""
        episodes = self._source.meta.episodes
        files = episodes.video_files[self._key]
        video = self._opened(self._source.root / files.paths[files.of_episode[episode]])
        first = round(float(episodes.video_starts_s[self._key][episode]) * self._fps)
        clip = video.cut(first, int(episodes.lengths[episode]))
        return self._encoded(episode) if clip is None else clip

    def close(self) -> None:
        """Give the file that is open."""
        if self._video is not None:
            self._video.close()
        self._path, self._video = None, None

    def _opened(self, path: Path) -> EncodedVideo:
        if self._video is None or path != self._path:
            self.close()
            self._path, self._video = path, EncodedVideo(path, self._fps)
        return self._video

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
