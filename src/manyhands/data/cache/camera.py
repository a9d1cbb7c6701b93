"""A camera whose images are decoded once per machine and then read from a store."""

from collections.abc import Callable, Iterator

import numpy as np

from manyhands.data.cache.store import FrameStore
from manyhands.data.images.cameras import ImageSource


class CachedCamera:
    """Images from the store if it has them, else from their source."""

    def __init__(
        self, source: ImageSource, store: FrameStore, drops_single_axis: bool = False
    ) -> None:
        assert source.shape == store.spec.shape and source.dtype == store.spec.dtype
        self.shape = source.shape
        self.dtype = source.dtype
        self.drops_single_axis = drops_single_axis
        self.fault: str | None = None  # Why this process no longer uses the store
        self._source = source
        self._store = store
        self._is_readable = True

    def read_into(self, frames: np.ndarray, out: np.ndarray) -> None:
        """Write the images of an array of frames, whose axes come first, into `out`."""
        assert out.flags.c_contiguous and out.dtype == self.dtype
        flat = frames.reshape(-1)
        if len(flat) == 0:
            return
        if flat.min() < 0 or flat.max() >= self._store.spec.num_frames:
            raise IndexError(f"frames must be between 0 and {self._store.spec.num_frames - 1}")
        places = out.reshape(len(flat), *self.shape)
        is_filled = self._try_read(self._store.gather, flat, places)
        missed = np.arange(len(flat)) if is_filled is None else np.flatnonzero(~is_filled)
        if len(missed):
            distinct, inverse = np.unique(flat[missed], return_inverse=True)
            fresh = np.empty((len(distinct), *self.shape), self.dtype)
            for place, picture in enumerate(self.pictures(distinct)):
                fresh[place] = picture
            places[missed] = fresh[inverse]

    def missing(self, frames: np.ndarray) -> np.ndarray:
        """The frames that are not cached, ascending and unique."""
        distinct: np.ndarray = np.unique(frames)
        is_present = self._try_read(self._store.are_present, distinct)
        return distinct if is_present is None else distinct[~is_present]

    def cacheable(self, frames: np.ndarray) -> np.ndarray:
        """The frames that may fit into the store."""
        return frames[frames < self._store.capacity]

    def pictures(self, frames: np.ndarray) -> Iterator[np.ndarray]:
        """Decode ascending frames, cache them, and return them as the next reader gets them."""
        for frame, picture in zip(frames.tolist(), self._source.pictures(frames), strict=True):
            encoded = self._store.encode(picture)
            if self.fault is None:
                try:
                    self._store.write(frame, encoded)
                except OSError as error:
                    self.fault = str(error)
            yield self._store.decode(encoded)

    def _try_read(
        self, read: Callable[..., np.ndarray], *arguments: np.ndarray
    ) -> np.ndarray | None:
        """Run a read of the store; None once it cannot be read."""
        if not self._is_readable:
            return None
        try:
            return read(*arguments)
        except OSError as error:
            self._is_readable, self.fault = False, str(error)
            return None
