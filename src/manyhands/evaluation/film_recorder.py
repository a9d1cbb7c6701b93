"""The film of an episode, encoded where the episode runs and while it does."""

from dataclasses import dataclass, field

import numpy as np

from manyhands.data.images.encoder import ClipEncoder

NUM_STILLS = 8


@dataclass(frozen=True)
class Film:
    """What is left of an episode's frames."""

    video: bytes = field(repr=False)
    """An mp4 file."""
    stills: np.ndarray
    """Frames (number, height, width, 3) from the first to the last."""


class FilmRecorder:
    """Encodes frames as they come: those of one long episode would fill the memory."""

    def __init__(self, fps: int, num_steps: int) -> None:
        self._fps = fps
        places = np.linspace(0, num_steps, NUM_STILLS).round().astype(int)
        self._places = frozenset(places.tolist())
        self._stills: dict[int, np.ndarray] = {}
        self._last: np.ndarray | None = None
        self._encoder: ClipEncoder | None = None

    def add(self, frame: np.ndarray) -> None:
        """Append an image (height, width, 3) of uint8."""
        height, width = (size - size % 2 for size in frame.shape[:2])
        if self._encoder is None:
            self._encoder = ClipEncoder(self._fps, height, width)
        if self._encoder.num_frames in self._places:
            self._stills[self._encoder.num_frames] = frame
        self._last = frame
        self._encoder.add(frame[:height, :width])

    def finish(self) -> Film:
        """The film of all frames that were added."""
        assert self._encoder is not None and self._last is not None
        # An environment that does not repeat itself may take another number of steps.
        self._stills[self._encoder.num_frames - 1] = self._last
        return Film(self._encoder.finish_file(), np.stack([*self._stills.values()]))
