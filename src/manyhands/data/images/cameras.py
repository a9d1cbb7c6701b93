"""Cameras of a dataset: images stored in the table, or the frames of video files."""

from collections.abc import Iterator

import numpy as np

from manyhands.data.episodes import Source
from manyhands.data.images.embedded import EmbeddedImageReader
from manyhands.data.images.formats import ImageFormat, checked
from manyhands.data.images.image_files import decode_image
from manyhands.data.images.video import FrameFormat, VideoReader
from manyhands.errors import DatasetError
from manyhands.lerobot_format.dataset.unusable_file import check_file


class VideoFrames:
    """The frames of a camera's video files."""

    def __init__(self, source: Source, key: str, form: ImageFormat) -> None:
        info, episodes = source.meta.info, source.meta.episodes
        self.shape, self.dtype = form.shape, form.dtype
        self._form = form
        self._episodes = episodes
        files = episodes.video_files[key]
        # Those of episodes that are not chosen may be missing.
        self.paths = [source.root / path for path in files.paths]
        self._files = files.of_episode
        for file in np.unique(self._files[source.selection.episodes]):
            # Faults of an existing file are reported when it is read.
            if not self.paths[file].is_file():
                check_file(self.paths[file])
        first_numbers = np.rint(episodes.video_starts_s[key] * info.fps).astype(np.int64)
        # What to add to a frame's number in the dataset to get its number in the file.
        self._shifts = first_numbers - episodes.from_index
        self._fps = info.fps
        self._reader = VideoReader(info.fps, FrameFormat(form.video_pixels, form.size))

    def layout(self) -> bytes:
        """File and position of every episode's frames."""
        parts = (self._episodes.from_index, self._files, self._shifts)
        form = f"{self._form!r} {self._fps}".encode()
        return b"".join([form, *(part.tobytes() for part in parts)])

    def pictures(self, frames: np.ndarray) -> Iterator[np.ndarray]:
        """Images, channels first, of ascending frames, numbered as in the complete dataset."""
        places = self._episodes.places(frames)
        files, numbers = self._files[places], frames + self._shifts[places]
        runs = np.split(np.arange(len(frames)), np.flatnonzero(np.diff(files)) + 1)
        for run in filter(len, runs):
            path = self.paths[files[run[0]]]
            for pixels in self._reader.frames(path, numbers[run]):
                yield checked(self._form.delivered(pixels, is_video=True), self._form, str(path))


class EmbeddedImages:
    """A camera whose images are stored in the table as PNG, JPEG or TIFF."""

    def __init__(self, source: Source, key: str, form: ImageFormat) -> None:
        self.shape, self.dtype = form.shape, form.dtype
        self.paths = [source.root / path for path in source.meta.episodes.data_files.paths]
        self._key = key
        self._form = form
        self._stored = EmbeddedImageReader(source)

    def layout(self) -> bytes:
        """File and position of every episode's frames."""
        return b"".join([repr(self._form).encode(), self._key.encode(), self._stored.layout()])

    def pictures(self, frames: np.ndarray) -> Iterator[np.ndarray]:
        """Images, channels first, of ascending frames, numbered as in the complete dataset."""
        for path, encoded in self._stored.read(self._key, frames):
            where = f"{path}, {self._key}"
            try:
                pixels = decode_image(encoded, self._form.stored_pixels, self._form.size)
            except ValueError as error:
                raise DatasetError(f"{where}: cannot decode an image: {error}") from None
            yield checked(self._form.delivered(pixels, is_video=False), self._form, where)


ImageSource = VideoFrames | EmbeddedImages


class CameraColumn:
    """A camera whose images are decoded on request."""

    def __init__(self, source: ImageSource, drops_single_axis: bool) -> None:
        self.shape = source.shape
        self.dtype = source.dtype
        self.drops_single_axis = drops_single_axis
        self._source = source

    def read_into(self, frames: np.ndarray, out: np.ndarray) -> None:
        """Images with their channels first; equal frames are decoded once."""
        places = out.reshape(-1, *self.shape)
        distinct, inverse, counts = np.unique(frames, return_inverse=True, return_counts=True)
        # The places of each distinct frame, one behind the other.
        by_frame = np.split(np.argsort(inverse.reshape(-1), kind="stable"), np.cumsum(counts)[:-1])
        for where, picture in zip(by_frame, self._source.pictures(distinct), strict=True):
            places[where] = picture
