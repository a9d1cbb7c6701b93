"""Datasets that runs are assembled from."""

from pathlib import Path

import numpy as np
import pytest

from manyhands.data.writing.writer import DatasetWriter

CAMERA = "observation.images.top"


@pytest.fixture(scope="session")
def camera_dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One episode with a camera stored as images, and no environment state."""
    root = tmp_path_factory.mktemp("data") / "camera"
    features = {
        "observation.state": {"dtype": "float32", "shape": (3,), "names": None},
        "action": {"dtype": "float32", "shape": (2,), "names": None},
        CAMERA: {"dtype": "image", "shape": (32, 32, 3), "names": ["height", "width", "channels"]},
    }
    random = np.random.default_rng(0)
    with DatasetWriter.create(root, 10, features) as writer:
        for _ in range(6):
            vectors = {"observation.state": random.normal(size=3), "action": random.normal(size=2)}
            frame = {name: value.astype("f4") for name, value in vectors.items()}
            frame[CAMERA] = random.integers(0, 255, (32, 32, 3), dtype=np.uint8)
            writer.add_frame({**frame, "task": "look"})
        writer.save_episode()
    return root
