"""Small datasets recorded by our own writer."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from manyhands.data.writing.output_files import SizeLimits
from manyhands.data.writing.writer import DatasetWriter

Frame = dict[str, Any]
Record = Callable[..., list[Frame]]

AXES = ["height", "width", "channels"]
FEATURES = {
    "observation.images.top": {"dtype": "video", "shape": [32, 48, 3], "names": AXES},
    "observation.image": {"dtype": "image", "shape": [16, 24, 3], "names": AXES},
    "observation.state": {"dtype": "float32", "shape": [4], "names": None},
    "observation.grid": {"dtype": "float32", "shape": [2, 3], "names": None},
    "observation.counts": {"dtype": "int16", "shape": [2, 3, 2], "names": None},
    "action": {"dtype": "float64", "shape": [2], "names": ["x", "y"]},
    "next.reward": {"dtype": "float32", "shape": [1], "names": None},
    "next.done": {"dtype": "bool", "shape": [1], "names": None},
    "note": {"dtype": "string", "shape": [1], "names": None},
}


def make_picture(height: int, width: int, number: int) -> np.ndarray:
    """A smooth picture that no other number has."""
    rows, columns = np.mgrid[:height, :width] / 10
    waves = [np.sin(columns + number), np.cos(rows + 2 * number), np.sin(rows + columns - number)]
    return np.stack([127 + 100 * wave for wave in waves], axis=-1).astype(np.uint8)


def make_frame(number: int, task: str) -> Frame:
    """A frame of FEATURES."""
    numbers = np.random.default_rng(number)
    return {
        "observation.images.top": make_picture(32, 48, number),
        "observation.image": numbers.integers(0, 256, (16, 24, 3), dtype=np.uint8),
        "observation.state": numbers.normal(size=4).astype(np.float32),
        "observation.grid": numbers.normal(size=(2, 3)).astype(np.float32),
        "observation.counts": numbers.integers(-9, 9, (2, 3, 2)).astype(np.int16),
        "action": numbers.normal(size=2),
        "next.reward": np.array([number / 8], dtype=np.float32),
        "next.done": np.array([number % 3 == 0]),
        "note": f"note {number}",
        "task": task,
    }


@pytest.fixture(scope="session")
def record() -> Record:
    """A function that records episodes of the given lengths and returns their frames."""

    def recorded(root: Path, lengths: Sequence[int] = (5, 3, 6), **options: Any) -> list[Frame]:
        frames = []
        with DatasetWriter.create(root, 10, FEATURES, **options) as writer:
            for episode, length in enumerate(lengths):
                tasks = [f"task {(episode + step // 3) % 3}" for step in range(length)]
                episode_frames = [
                    make_frame(len(frames) + step, task) for step, task in enumerate(tasks)
                ]
                for frame in episode_frames:
                    writer.add_frame(frame)
                writer.save_episode()
                frames += episode_frames
        return frames

    return recorded


@pytest.fixture(scope="session")
def plain_root(record: Record, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of three episodes with 5, 3 and 6 frames; to be read only."""
    root = tmp_path_factory.mktemp("plain") / "dataset"
    record(root)
    return root


@pytest.fixture
def damaged_root(record: Record, tmp_path: Path) -> Path:
    """A dataset of two episodes in two data files each, to be damaged."""
    root = tmp_path / "dataset"
    record(root, (3, 2), limits=SizeLimits(1, 1, 1))
    return root


@pytest.fixture(scope="session")
def picture() -> Callable[[int, int, int], np.ndarray]:
    """A function from height, width and a number to a smooth picture."""
    return make_picture


@pytest.fixture(scope="session")
def features() -> dict[str, dict[str, Any]]:
    """The features of recorded datasets, in LeRobot's form."""
    return FEATURES


@pytest.fixture(scope="session")
def frame() -> Callable[[int, str], Frame]:
    """A function from a number and a task to a frame of the recorded features."""
    return make_frame
