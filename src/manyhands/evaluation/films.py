"""Videos and film strips of episodes."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from manyhands.data.images.encoder import ClipEncoder, ClipFile
from manyhands.data.images.image_files import encode_png
from manyhands.evaluation.captions import caption_coverage
from manyhands.evaluation.rollout import EpisodeResult

NUM_STILLS = 8
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


def film_strip(result: EpisodeResult) -> FilmStrip:
    """Some frames of an episode, none of them twice, and how it went."""
    places = np.linspace(0, len(result.frames) - 1, NUM_STILLS).round().astype(int)
    outcome = "success" if result.success else f"failure, maximum reward {result.max_reward:.3g}"
    return FilmStrip(
        caption=f"episode {result.index}, seed {result.seed}: {outcome}",
        stills=np.stack([result.frames[place] for place in np.unique(places)]),
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
