"""Synthetic datasets for real runs; they need nothing from outside."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from manyhands.data.writing.writer import DatasetWriter

NUM_EPISODES = 4
TASKS = ("pick up the cube", "stack")


@dataclass(frozen=True)
class Recording:
    """What the frames of a synthetic dataset hold."""

    sizes: Mapping[str, int]
    """Vectors by name."""
    cameras: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Height and width by name."""
    episode_length: int = 16
    block: int = 1
    """Width and height of the squares of one color; larger ones make smaller files."""
    seed: int = 0

    def write(self, root: Path) -> Path:
        """Record a few short episodes of two tasks."""
        features: dict[str, dict[str, object]] = {
            name: {"dtype": "float32", "shape": (size,), "names": None}
            for name, size in self.sizes.items()
        }
        names = ["height", "width", "channels"]
        for name, (height, width) in self.cameras.items():
            features[name] = {"dtype": "image", "shape": (height, width, 3), "names": names}
        random = np.random.default_rng(self.seed)
        with DatasetWriter.create(root, 10, features) as writer:
            for number in range(NUM_EPISODES):
                for _ in range(self.episode_length):
                    writer.add_frame({**self._frame(random), "task": TASKS[number % len(TASKS)]})
                writer.save_episode()
        return root

    def _frame(self, random: np.random.Generator) -> dict[str, np.ndarray]:
        drawn = {name: random.normal(size=size) for name, size in self.sizes.items()}
        frame = {name: value.astype("f4") for name, value in drawn.items()}
        for name, (height, width) in self.cameras.items():
            shape = (height // self.block, width // self.block, 3)
            squares = random.integers(0, 255, shape, dtype=np.uint8)
            frame[name] = squares.repeat(self.block, axis=0).repeat(self.block, axis=1)
        return frame
