"""Videos and film strips of episodes."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from manyhands.data.images.image_files import encode_png
from manyhands.evaluation.captions import caption_coverage
from manyhands.evaluation.film_recorder import FilmRecorder
from manyhands.evaluation.rollout import EpisodeResult, EpisodeTask

BACKGROUND, INK = np.array([250, 249, 246]), np.array([40, 40, 44])
FRAME_GAP, ROW_GAP = 4, 14
UNSCALED_WIDTH = 800
"""Captions and gaps of wider strips are larger, since a screen shows these smaller."""


@dataclass(frozen=True)
class FilmStrip:
    """Some frames of an episode, and which episode it is."""

    caption: str
    stills: np.ndarray
    """Frames (number, height, width, 3) from the first to the last."""


def filmed_first(results: Sequence[EpisodeResult], number: int) -> list[EpisodeResult]:
    """Episodes worth watching: failures first, in their order."""
    ran = [result for result in results if result.error is None]
    return sorted(ran, key=lambda result: result.success)[:number]


def video_path(folder: Path, result: EpisodeResult) -> Path:
    """The file of an episode's video."""
    return folder / f"eval_episode_{result.index}.mp4"


def filming_task(result: EpisodeResult, fps: int) -> EpisodeTask:
    """The same episode once more, filmed: it goes the same way."""
    return EpisodeTask(result.index, result.seed, FilmRecorder(fps, result.length))


def write_video(folder: Path, result: EpisodeResult) -> Path:
    """Write the video of a filmed episode as mp4."""
    assert result.film is not None
    folder.mkdir(parents=True, exist_ok=True)
    path = video_path(folder, result)
    path.write_bytes(result.film.video)
    return path


def film_strip(result: EpisodeResult) -> FilmStrip:
    """Some frames of a filmed episode, and how it went."""
    assert result.film is not None
    outcome = "success" if result.success else f"failure, maximum reward {result.max_reward:.3g}"
    return FilmStrip(
        caption=f"episode {result.index}, seed {result.seed}: {outcome}",
        stills=result.film.stills,
    )


def write_film_strips(path: Path, strips: Sequence[FilmStrip]) -> None:
    """Write an image with one row per episode: its caption, and its frames below."""
    widest = max(strip.stills.shape[0] * strip.stills.shape[2] for strip in strips)
    scale = max(1, round(widest / UNSCALED_WIDTH))
    rows = [_Row(strip.stills, caption_coverage(strip.caption, scale), scale) for strip in strips]
    gap = ROW_GAP * scale
    height = gap + sum(row.height + gap for row in rows)
    image = np.empty((height, max(row.width for row in rows) + 2 * gap, 3), np.uint8)
    image[:] = BACKGROUND
    top = gap
    for row in rows:
        row.draw(image[top:, gap:])
        top += row.height + gap
    path.write_bytes(encode_png(image))


@dataclass(frozen=True)
class _Row:
    """The caption of an episode above its frames."""

    stills: np.ndarray
    coverage: np.ndarray
    """How much of each pixel its caption covers."""
    scale: int

    @property
    def gap(self) -> int:
        return FRAME_GAP * self.scale

    @property
    def height(self) -> int:
        height: int = self.stills.shape[1]
        return len(self.coverage) + self.gap + height

    @property
    def width(self) -> int:
        number, _, width, _ = self.stills.shape
        widest: int = max(self.coverage.shape[1], number * (width + self.gap) - self.gap)
        return widest

    def draw(self, area: np.ndarray) -> None:
        """Draw at the upper left of an area of the background."""
        height, width = self.coverage.shape
        area[:height, :width] = BACKGROUND + self.coverage[..., None] * (INK - BACKGROUND)
        top = height + self.gap
        for place, still in enumerate(self.stills):
            left = place * (still.shape[1] + self.gap)
            area[top : top + still.shape[0], left : left + still.shape[1]] = still
