"""Samples of cameras: evenly spaced frames of each episode, decoded small and measured."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import NamedTuple

import numpy as np

from manyhands.data.build_columns import image_source
from manyhands.data.episodes import Source, select_episodes
from manyhands.data.images.formats import Size
from manyhands.data.read_options import ReadOptions
from manyhands.errors import DatasetError
from manyhands.lerobot_format.dataset.info import Feature
from manyhands.lerobot_format.dataset.meta import DatasetMeta, read_dataset_meta

SPACING_S = 0.3  # Several samples within the shortest freeze that counts
MAX_SAMPLES = 64  # Per episode and camera, which bounds the time that long episodes take
MIN_SAMPLES = 8  # Of a short episode, if it has as many frames
THUMBNAIL = 64  # Height and width: a gripper is still some pixels, noise averages out
# Levels of 0 to 255 by which a block of a repeated image changes through compression.
FROZEN_LEVEL = 4.0
_BLOCK = 2  # Side of the blocks of a thumbnail whose change is measured
_LUMA = np.array([0.299, 0.587, 0.114], np.float32)  # Of red, green, blue
DIM_QUANTILE, BRIGHT_QUANTILE = 0.02, 0.98  # Ignore reflections and hot pixels
_JOB_S = 2.0
_SAMPLE_S, _PIXEL_S = 2e-3, 4e-8  # Decoding, with the frames between a keyframe and a sample


def sampled_frames(num_frames: int, fps: float) -> np.ndarray:
    """Frames of an episode to look at: the first, the last, and evenly spaced ones between."""
    wanted = round(num_frames / fps / SPACING_S) + 1
    number = min(num_frames, max(MIN_SAMPLES, min(MAX_SAMPLES, wanted)))
    return np.unique(np.linspace(0, num_frames - 1, number).round().astype(np.int64))


class CameraSamples(NamedTuple):
    """Measures of one camera in one episode, in levels of 0 to 255."""

    key: str
    episode: int
    frames: np.ndarray  # Sampled frames, counted within the episode
    brightness: np.ndarray  # Mean luma of each
    dim: np.ndarray  # Luma that nearly all pixels exceed
    bright: np.ndarray  # Luma that nearly no pixel exceeds
    # Of the block that changes most, to each next sample from the last one that changed visibly:
    # slow motion adds up.
    changes: np.ndarray


def measured(key: str, episode: int, frames: np.ndarray, images: np.ndarray) -> CameraSamples:
    """Measure images (samples, channels, height, width) of an episode."""
    colors = images[:, :3].astype(np.float32)
    luma = np.tensordot(colors, _LUMA, (1, 0)) if colors.shape[1] == 3 else colors[:, 0]
    flat = luma.reshape(len(luma), -1)
    return CameraSamples(
        key,
        episode,
        frames,
        flat.mean(axis=1),
        np.quantile(flat, DIM_QUANTILE, axis=1),
        np.quantile(flat, BRIGHT_QUANTILE, axis=1),
        np.array([*_changes(colors)], np.float64),
    )


def _changes(images: np.ndarray) -> Iterator[float]:
    reference = images[0]
    for image in images[1:]:
        change = _change(reference, image)
        yield change
        if change > FROZEN_LEVEL:
            reference = image


def _change(one: np.ndarray, other: np.ndarray) -> float:
    """A frozen image changes nowhere; a live one need not change in more than a few blocks."""
    difference = np.abs(one - other).mean(axis=0)
    height, width = (size - size % _BLOCK or size for size in difference.shape)
    block = (min(_BLOCK, height), min(_BLOCK, width))
    blocks = difference[:height, :width].reshape(
        height // block[0], block[0], width // block[1], block[1]
    )
    return float(blocks.mean(axis=(1, 3)).max())


@dataclass(frozen=True)
class CameraJob:
    """Episodes of one camera that one process samples in one go."""

    root: str
    key: str
    lengths: tuple[tuple[int, int], ...]  # Number of each episode, and of its frames
    fps: float
    frame_s: float  # Estimated time per sample

    @property
    def num_frames(self) -> int:
        """Frames it decodes."""
        return sum(len(sampled_frames(length, self.fps)) for _, length in self.lengths)

    @property
    def cost_s(self) -> float:
        """Estimated time."""
        return self.num_frames * self.frame_s

    def run(self) -> list[CameraSamples]:
        """Samples of all episodes that can be decoded; the check of frames reports the others."""
        return [*filter(None, (self._sampled(*each) for each in self.lengths))]

    def lost(self, reason: str) -> list[CameraSamples]:
        """No samples if decoding killed its process."""
        return []

    def parts(self) -> "list[CameraJob]":
        """A job per episode; none if there is only one."""
        return [*self._divided(1)] if len(self.lengths) > 1 else []

    def _divided(self, num_episodes: int) -> "Iterator[CameraJob]":
        for first in range(0, len(self.lengths), num_episodes):
            some = self.lengths[first : first + num_episodes]
            yield CameraJob(self.root, self.key, some, self.fps, self.frame_s)

    def _sampled(self, episode: int, length: int) -> CameraSamples | None:
        meta = _meta(self.root)
        frames = sampled_frames(length, self.fps)
        try:
            source = Source(Path(self.root), meta, select_episodes(meta.episodes, [episode]))
            size = thumbnail_size(meta.info.features[self.key])
            images = image_source(source, ReadOptions(image_size=size), self.key)
            pictures = [*images.pictures(frames + meta.episodes.from_index[episode])]
        except DatasetError:
            return None
        return measured(self.key, episode, frames, np.stack(pictures))

    def balanced(self) -> "Iterator[CameraJob]":
        """The same as jobs of some seconds each."""
        yield from self._divided(max(1, round(len(self.lengths) * _JOB_S / max(self.cost_s, 1e-9))))


def camera_jobs(source: Source) -> Iterator[CameraJob]:
    """Jobs for all color cameras and chosen episodes with frames; depth has no brightness."""
    info, chosen = source.meta.info, source.selection.episodes
    lengths = source.meta.episodes.lengths[chosen]
    pairs = [*zip(chosen.tolist(), lengths.tolist(), strict=True)]
    present = tuple(pair for pair in pairs if pair[1])
    for key in color_cameras(info.features):
        frame_s = _SAMPLE_S + _PIXEL_S * prod(info.features[key].shape)
        yield from CameraJob(str(source.root), key, present, info.fps, frame_s).balanced()


def color_cameras(features: dict[str, Feature]) -> Sequence[str]:
    """Cameras that are looked at."""
    return [key for key, each in features.items() if each.is_camera and not each.is_depth]


def thumbnail_size(feature: Feature) -> Size:
    """Height and width that images are decoded to; small images keep their size."""
    _, height, width = feature.channel_first_shape
    return min(height, THUMBNAIL), min(width, THUMBNAIL)


@lru_cache(maxsize=1)
def _meta(root: str) -> DatasetMeta:
    # A process that samples many jobs of a dataset reads its metadata once.
    return read_dataset_meta(Path(root))
