"""Cameras of a dataset as columns: pictures stored in the table, or the frames of video files."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from manyhands.data.pictures.images import decode_image
from manyhands.data.pictures.stored_bytes import StoredBytes
from manyhands.data.pictures.video import VideoReader
from manyhands.data.selection import Selection, Source
from manyhands.errors import DatasetError


class ImageColumn:
    """A camera whose pictures are stored in the table as PNG or JPEG."""

    drops_single_axis = False

    def __init__(self, key: str, shape: tuple[int, ...], stored: StoredBytes) -> None:
        self._key = key
        self._shape = shape
        self._stored = stored

    def read(self, rows: np.ndarray) -> Tensor:
        """Pictures of uint8, channels first."""
        distinct, inverse = np.unique(rows, return_inverse=True)
        pictures = np.empty((len(distinct), *self._shape), dtype=np.uint8)
        for place, (path, encoded) in enumerate(self._stored.read(self._key, distinct)):
            where = f"{path}, {self._key}"
            try:
                pixels = decode_image(encoded, self._shape[0])
            except ValueError as error:
                raise DatasetError(f"{where}: a picture cannot be decoded: {error}") from None
            pictures[place] = _channels_first(pixels, self._shape, where)
        return torch.from_numpy(pictures[inverse.reshape(rows.shape)])


@dataclass(frozen=True)
class Clips:
    """Where the chosen episodes lie in the video files of one camera."""

    paths: list[Path]
    files: np.ndarray
    """Place in `paths` by chosen episode."""
    first_frames: np.ndarray
    """Number of its first frame in the file, by chosen episode."""
    selection: Selection
    frame_index: np.ndarray
    """Number of a row's frame in its episode."""

    def locate(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """For each row the place of its file in `paths`, and its frame number there."""
        places = self.selection.places(rows)
        return self.files[places], self.first_frames[places] + self.frame_index[rows]


def locate_clips(source: Source, key: str, frame_index: np.ndarray) -> Clips:
    """The clips of a camera; every file they need must be there."""
    meta, chosen = source.meta, source.selection.episodes
    files = meta.episodes.video_files[key]
    paths = [source.root / path for path in files.paths]
    for file in np.unique(files.of_episode[chosen]):
        if not paths[file].is_file():
            raise DatasetError(f"{paths[file]} is missing; copy or download the dataset again")
    first_frames = np.rint(meta.episodes.video_starts_s[key][chosen] * meta.info.fps)
    return Clips(
        paths=paths,
        files=files.of_episode[chosen],
        first_frames=first_frames.astype(np.int64),
        selection=source.selection,
        frame_index=frame_index,
    )


class VideoColumn:
    """A camera whose pictures are the frames of video files."""

    drops_single_axis = True

    def __init__(self, shape: tuple[int, ...], clips: Clips, reader: VideoReader) -> None:
        self._shape = shape
        self._clips = clips
        self._reader = reader

    def read(self, rows: np.ndarray) -> Tensor:
        """Pictures of uint8, channels first; every frame is decoded once, in the file's order."""
        files, numbers = self._clips.locate(rows.reshape(-1))
        pictures = np.empty((rows.size, *self._shape), dtype=np.uint8)
        for file in np.unique(files):
            path = self._clips.paths[file]
            places = np.flatnonzero(files == file)
            distinct, inverse = np.unique(numbers[places], return_inverse=True)
            for index, pixels in enumerate(self._reader.frames(path, distinct)):
                turned = _channels_first(pixels, self._shape, str(path))
                pictures[places[inverse == index]] = turned
        return torch.from_numpy(pictures.reshape(*rows.shape, *self._shape))


def _channels_first(pixels: np.ndarray, shape: tuple[int, ...], where: str) -> np.ndarray:
    """A picture as (channels, height, width), which must be the declared shape."""
    turned = pixels.transpose(2, 0, 1)
    if turned.shape != shape:
        seen, declared = ("x".join(map(str, sizes)) for sizes in (turned.shape, shape))
        raise DatasetError(
            f"{where}: a picture is {seen} (channels x height x width), "
            f"but meta/info.json declares {declared}"
        )
    return turned
