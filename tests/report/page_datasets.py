"""Datasets for tests of pages: a disk is led around, and some episodes have faults."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import numpy as np

from manyhands.data.writing.output_files import SizeLimits
from manyhands.data.writing.writer import DatasetWriter
from manyhands.report.datasets.dataset_files import DatasetFiles, Progress, read_dataset_files

CAMERA, STATE, ACTION = "observation.images.top", "observation.state", "action"
SIDE, FPS = 32, 10
AXES = ["height", "width", "channels"]
NUMBERS = {
    STATE: {"dtype": "float32", "shape": [2], "names": ["x", "y"]},
    ACTION: {"dtype": "float32", "shape": [2], "names": ["x", "y"]},
}
JERKY, DARK = 3, 5  # Episodes with faults, if there are as many
ONE_EPISODE_PER_FILE = SizeLimits(data_file_bytes=1, video_file_bytes=1)


def write_dataset(
    root: Path, num_episodes: int = 10, camera: str | None = "video", task: str = "reach"
) -> Path:
    """Record episodes of about three seconds; `camera` is its dtype, None for no camera."""
    chance = np.random.default_rng(0)
    images = {CAMERA: {"dtype": camera, "shape": [SIDE, SIDE, 3], "names": AXES}}
    features = NUMBERS | (images if camera else {})
    with DatasetWriter.create(root, FPS, features, "arm", ONE_EPISODE_PER_FILE) as writer:
        for episode in range(num_episodes):
            places = _path(chance, 24 + int(chance.integers(0, 8)), episode)
            for state, action in pairwise(places):
                frame = {STATE: state, ACTION: action, "task": task}
                writer.add_frame(frame | ({CAMERA: _image(state, episode)} if camera else {}))
            writer.save_episode()
    return root


def _path(chance: np.random.Generator, length: int, episode: int) -> np.ndarray:
    first, last = chance.uniform(0.1, 0.9, (2, 2))
    part = np.linspace(0, 1, length)[:, None]
    places = first + part**2 * (3 - 2 * part) * (last - first)
    noise = 0.1 if episode == JERKY else 0.001
    return (places + chance.normal(0, noise, places.shape)).astype(np.float32)


def _image(state: np.ndarray, episode: int) -> np.ndarray:
    rows, columns = np.mgrid[:SIDE, :SIDE] / SIDE
    disk = np.hypot(columns - state[0], rows - state[1]) < 0.15
    shades = [200 * disk, 90 + 60 * rows, 120 + 60 * columns]
    return np.stack(shades, axis=-1).astype(np.uint8) * np.uint8(episode != DARK)


@contextmanager
def no_bar(doing: str) -> Iterator[Progress]:
    """Shows nothing."""
    yield lambda done, total: None


def read_files(root: Path) -> DatasetFiles:
    """A dataset as its page reads it."""
    return read_dataset_files(root, root.name, no_bar)


def damage_video(root: Path, episode: int) -> Path:
    """Overwrite the video of an episode."""
    videos = sorted((root / "videos").rglob("*.mp4"))
    videos[episode].write_bytes(b"\0" * 500)
    return root
