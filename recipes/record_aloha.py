"""Record episodes of the scripted ALOHA expert as a LeRobot dataset.

    python recipes/record_aloha.py --root=data/aloha_cube [--task=AlohaTransferCube-v0]
        [--episodes=50] [--height=240] [--width=320] [--seed=1000000]

Needs the extra `sim`. Episodes whose expert does not succeed are recorded again with other seeds.
"""

import argparse
from typing import Any

from recording import positive, record_guarded, recorder_flags
from rich.progress import track

from manyhands.config.sections.env import ALOHA_TASKS, AlohaEnvConfig
from manyhands.data.writing.writer import DatasetWriter
from manyhands.sim.aloha import AlohaEnvironment
from manyhands.sim.aloha_expert import expert_frames

STATE, CAMERA = "observation.state", "observation.images.top"


def flags() -> argparse.ArgumentParser:
    """The flags of this recorder."""
    parser = recorder_flags(__doc__, num_episodes=50)
    parser.add_argument("--task", choices=ALOHA_TASKS, default="AlohaTransferCube-v0")
    parser.add_argument("--height", type=positive, default=240)
    parser.add_argument("--width", type=positive, default=320)
    return parser


def record(asked: argparse.Namespace) -> None:
    """Record."""
    config = AlohaEnvConfig(task=asked.task)
    inputs = {STATE: (14,), CAMERA: (3, asked.height, asked.width)}
    environment = AlohaEnvironment(config, inputs)
    seed = asked.seed
    with DatasetWriter.create(
        asked.root, config.fps, features(asked.height, asked.width), robot_type="aloha"
    ) as writer:
        for _ in track(range(asked.episodes), "recording"):
            rows: list[dict[str, Any]] = []
            while not any(row["next.success"][0] for row in rows):
                rows = list(expert_frames(environment, seed, config.episode_length))
                seed += 1
            for row in rows:
                writer.add_frame(row)
            writer.save_episode()


def features(height: int, width: int) -> dict[str, dict[str, Any]]:
    """Features of the dataset, in LeRobot's form."""
    arm = ("waist", "shoulder", "elbow", "forearm_roll", "wrist_angle", "wrist_rotate")
    names = [f"{side}_{joint}" for side in ("left", "right") for joint in (*arm, "gripper")]
    vector = {"dtype": "float32", "shape": (len(names),), "names": names}
    image = {
        "dtype": "video",
        "shape": (height, width, 3),
        "names": ["height", "width", "channels"],
    }
    flags = {
        "next.reward": {"dtype": "float32", "shape": (1,), "names": None},
        "next.success": {"dtype": "bool", "shape": (1,), "names": None},
        "next.done": {"dtype": "bool", "shape": (1,), "names": None},
    }
    return {STATE: vector, CAMERA: image, "action": vector, **flags}


if __name__ == "__main__":
    record_guarded(flags(), record)
