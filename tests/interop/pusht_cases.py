"""Small policies that act in PushT, written by either side."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from policy_cases import Document, act, diffusion, save_ours, save_theirs

from manyhands.types import Stats

STATE, CAMERA = "observation.state", "observation.image"
FEATURES = {
    "input_features": {
        CAMERA: {"type": "VISUAL", "shape": [3, 96, 96]},
        STATE: {"type": "STATE", "shape": [2]},
    },
    "output_features": {"action": {"type": "ACTION", "shape": [2]}},
}
CASES: dict[str, Document] = {
    "ACT": act(0, n_action_steps=8) | FEATURES,
    "Diffusion": diffusion(0, crop_shape=[84, 84], crop_is_random=True) | FEATURES,
}
"""A chunk is executed to its end."""
WRITERS = ("manyhands", "LeRobot")


def save_case(name: str, writer: str, folder: Path, lerobot: Callable[..., Any]) -> Path:
    """Let a side write a policy."""
    if writer == "manyhands":
        save_ours(CASES[name], folder, pusht_stats())
    else:
        save_theirs(CASES[name], folder, lerobot, pusht_stats())
    return folder


def pusht_stats() -> Stats:
    """Statistics by which a policy with random weights stays near the target and moves."""
    table = {"min": 20.0, "max": 492.0, "mean": 256.0}
    pixels = {"min": 0.0, "max": 1.0, "mean": 0.8, "std": 0.2}
    return {
        CAMERA: {name: np.full((3, 1, 1), value) for name, value in pixels.items()},
        STATE: {name: np.full(2, value) for name, value in (table | {"std": 20.0}).items()},
        "action": {name: np.full(2, value) for name, value in (table | {"std": 60.0}).items()},
    }
