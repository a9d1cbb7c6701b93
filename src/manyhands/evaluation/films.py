"""Videos and film strips of episodes."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from manyhands.data.images.encoder import ClipEncoder, ClipFile
from manyhands.data.images.image_files import encode_png
from manyhands.evaluation.rollout import EpisodeResult

NUM_STILLS = 8


def filmed_first(results: Sequence[EpisodeResult], number: int) -> list[EpisodeResult]:
    """Episodes worth watching: failures first, in their order."""
    ran = [result for result in results if result.error is None]
    return sorted(ran, key=lambda result: result.success)[:number]


def video_path(folder: Path, result: EpisodeResult) -> Path:
    """The file of an episode's video."""
    return folder / f"eval_episode_{result.index}.mp4"


def write_video(folder: Path, result: EpisodeResult, fps: int) -> Path:
    """Write the frames of an episode as mp4."""
    folder.mkdir(parents=True, exist_ok=True)
    path = video_path(folder, result)
    height, width = (size - size % 2 for size in result.frames[0].shape[:2])
    encoder = ClipEncoder(fps, height, width)
    for frame in result.frames:
        encoder.add(frame[:height, :width])
    file = ClipFile(path, fps)
    file.append(encoder.finish())
    file.close()
    return path


def film_strip(result: EpisodeResult) -> np.ndarray:
    """Some frames of an episode side by side."""
    places = np.linspace(0, len(result.frames) - 1, NUM_STILLS).round().astype(int)
    return np.concatenate([result.frames[place] for place in places], axis=1)


def write_film_strips(path: Path, strips: Sequence[np.ndarray]) -> None:
    """One row of frames per episode."""
    path.write_bytes(encode_png(np.concatenate(strips)))
