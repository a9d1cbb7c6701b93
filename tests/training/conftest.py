"""Datasets and flags of runs, and processes to make them in."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from manyhands.data.writing.writer import DatasetWriter

CAMERA = "observation.images.top"
DEADLINE_S = 1800
"""Of processes; until tests ask for more time, that of pytest comes first."""


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


@pytest.fixture(scope="session")
def tiny_diffusion() -> tuple[str, ...]:
    """Flags of a Diffusion Policy without cameras that makes an update in milliseconds."""
    return (
        "--policy.type=diffusion",
        "--policy.down_dims=[8, 16]",
        "--policy.horizon=8",
        "--policy.n_action_steps=4",
        "--policy.drop_n_last_frames=2",
        "--policy.diffusion_step_embed_dim=8",
        "--policy.num_train_timesteps=10",
        "--policy.scheduler_warmup_steps=1",
        "--policy.device=cpu",
        "--num_workers=0",
    )


@pytest.fixture(scope="session")
def in_ranks(command: Any) -> Any:
    """Trains runs, each in its number of processes; see forked_ranks.py."""
    program = [sys.executable, str(Path(__file__).with_name("forked_ranks.py"))]

    def train(runs: list[tuple[int, Path, list[str]]]) -> None:
        lines = []
        for num_processes, run_dir, argv in runs:
            run_dir.mkdir(parents=True, exist_ok=True)
            lines.append(json.dumps([num_processes, str(run_dir), argv]))
        command.run(program, given="\n".join(lines), deadline_s=DEADLINE_S)

    return train
