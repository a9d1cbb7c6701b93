"""Frames, and their films without an episode."""

from collections.abc import Sequence

import numpy as np

from manyhands.evaluation.film_recorder import Film, FilmRecorder


def film_of(frames: Sequence[np.ndarray], fps: int = 10) -> Film | None:
    """The film of the frames of an episode; None without any."""
    recorder = FilmRecorder(fps, len(frames) - 1)
    for frame in frames:
        recorder.add(frame)
    return recorder.finish() if frames else None


def shades(number: int, height: int = 32, width: int = 48) -> list[np.ndarray]:
    """Frames from black to white."""
    levels = np.linspace(0, 255, number).astype(np.uint8)
    return [np.full((height, width, 3), level, np.uint8) for level in levels]
