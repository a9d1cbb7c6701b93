"""Record episodes of the scripted ALOHA expert as a LeRobot dataset.

    python recipes/record_aloha.py --root=data/aloha_cube [--task=AlohaTransferCube-v0]
        [--episodes=50] [--height=240] [--width=320] [--seed=1000000] [--processes=CORES]

Needs the extra `sim`. Seeds whose expert does not succeed are skipped. Rendering takes nearly all
of the time; the dataset is the same for any number of processes.
"""

import argparse
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from itertools import count, islice
from multiprocessing import get_context
from typing import Any

from recording import positive, record_guarded, recorder_flags
from rich.progress import track

from manyhands.config.sections.env import ALOHA_TASKS, AlohaEnvConfig
from manyhands.cores import num_cores
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
    parser.add_argument("--processes", type=positive, default=num_cores())
    return parser


def record(asked: argparse.Namespace) -> None:
    """Record; several processes render, which takes nearly all of the time."""
    config = AlohaEnvConfig(task=asked.task)
    inputs = {STATE: (14,), CAMERA: (3, asked.height, asked.width)}
    described = features(asked.height, asked.width)
    with (
        DatasetWriter.create(asked.root, config.fps, described, robot_type="aloha") as writer,
        ProcessPoolExecutor(asked.processes, get_context("spawn")) as processes,
    ):
        seeds = islice(successful_seeds(config, asked.seed), asked.episodes)
        # An episode takes a hundred megabytes of images: only some are rendered ahead.
        futures = (processes.submit(expert_rows, config, inputs, seed) for seed in seeds)
        episodes = results_in_order(futures, 2 * asked.processes)
        for rows in track(episodes, "recording", total=asked.episodes):
            for row in rows:
                writer.add_frame(row)
            writer.save_episode()


def results_in_order(futures: Iterator[Future[Any]], num_ahead: int) -> Iterator[Any]:
    """The results of futures, of which so many are submitted before the first is awaited."""
    waiting = deque(islice(futures, num_ahead))
    while waiting:
        yield waiting.popleft().result()
        waiting.extend(islice(futures, 1))


def successful_seeds(config: AlohaEnvConfig, first: int) -> Iterator[int]:
    """Seeds whose expert succeeds, found without rendering."""
    for seed in count(first):
        rows = expert_rows(config, {STATE: (14,)}, seed)
        if any(row["next.success"][0] for row in rows):
            yield seed


def expert_rows(
    config: AlohaEnvConfig, inputs: dict[str, tuple[int, ...]], seed: int
) -> list[dict[str, Any]]:
    """The episode of a seed."""
    environment = AlohaEnvironment(config, inputs)
    return list(expert_frames(environment, seed, config.episode_length))


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
