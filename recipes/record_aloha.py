"""Record episodes of the scripted ALOHA expert as a LeRobot dataset.

    python recipes/record_aloha.py --root=data/aloha_cube [--task=AlohaTransferCube-v0]
        [--episodes=50] [--height=240] [--width=320] [--seed=1000000] [--processes=CORES]

Needs the extra `sim`. Seeds whose expert does not succeed are skipped. Rendering takes nearly all
of the time; the dataset is the same for any number of processes.
"""

import argparse
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from itertools import count, islice
from math import inf
from typing import Any

from recording import positive, record_guarded, recorder_flags, video_size
from rendering import Rendering, expert_rows, rendered_episodes
from rich.progress import Progress

from manyhands.config.sections.env import ALOHA_TASKS, AlohaEnvConfig
from manyhands.cores import num_cores
from manyhands.data.writing.writer import DatasetWriter

STATE, CAMERA = "observation.state", "observation.images.top"
RECIPES = {
    "AlohaTransferCube-v0": "act_aloha_cube",
    "AlohaInsertion-v0": "act_aloha_insertion",
}
RENDERING, ENCODING = 0.9, 0.1
"""Parts of the work on a step, on a CPU."""


def flags() -> argparse.ArgumentParser:
    """The flags of this recorder."""
    parser = recorder_flags(__doc__, num_episodes=50)
    text = "task to record (default: %(default)s)"
    parser.add_argument("--task", choices=ALOHA_TASKS, default="AlohaTransferCube-v0", help=text)
    text = "height of images, even (default: %(default)s)"
    parser.add_argument("--height", type=video_size, default=240, help=text)
    text = "width of images, even (default: %(default)s)"
    parser.add_argument("--width", type=video_size, default=320, help=text)
    text = "processes that render (default: one per core, here %(default)s)"
    parser.add_argument("--processes", type=positive, default=num_cores(), help=text)
    return parser


def record(asked: argparse.Namespace) -> str:
    """Record; several processes render, which takes nearly all of the time."""
    config = AlohaEnvConfig(task=asked.task)
    inputs = {STATE: (14,), CAMERA: (3, asked.height, asked.width)}
    described = features(asked.height, asked.width)
    # Episodes end minutes apart: the time left is estimated from all of them.
    bar = Progress(speed_estimate_period=inf)
    with DatasetWriter.create(asked.root, config.fps, described, robot_type="aloha") as writer, bar:
        task = bar.add_task("recording", total=asked.episodes * config.episode_length)
        rendered = rendered_episodes(
            partial(Rendering, config, inputs),
            islice(successful_seeds(config, asked.seed), asked.episodes),
            asked.processes,
            report=lambda num_steps: bar.advance(task, num_steps * RENDERING),
        )
        with closing(rendered) as episodes:
            for rows in episodes:
                for row in rows:
                    writer.add_frame(row)
                writer.save_episode()
                bar.advance(task, len(rows) * ENCODING)
    return RECIPES[asked.task]


def successful_seeds(config: AlohaEnvConfig, first: int) -> Iterator[int]:
    """Seeds whose expert succeeds, found without rendering."""
    for seed in count(first):
        if any(row["next.success"][0] for row in expert_rows(config, {STATE: (14,)}, seed)):
            yield seed


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
