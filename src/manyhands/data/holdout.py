"""Episodes that training never sees, chosen as LeRobot chooses them."""

import math
from collections.abc import Sequence

import numpy as np

from manyhands.errors import DatasetError


def split_episodes(
    first_tasks: Sequence[str], episodes: np.ndarray, fraction: float
) -> tuple[np.ndarray, np.ndarray]:
    """Episodes to train on, and those held out: the last ones of every task, rounded up.

    `first_tasks` are the first task of each episode of `episodes`.
    """
    by_task: dict[str, list[int]] = {}
    for task, episode in zip(first_tasks, episodes.tolist(), strict=True):
        by_task.setdefault(task, []).append(episode)
    held_out = [
        episode
        for members in by_task.values()
        for episode in members[len(members) - math.ceil(len(members) * fraction) :]
    ]
    training = np.setdiff1d(episodes, held_out)
    if training.size == 0:
        raise DatasetError(
            f"--dataset.eval_split={fraction} leaves no episode for training: {len(episodes)} "
            f"episodes of {len(by_task)} tasks, and each task holds out at least one. Lower "
            "it, or set it to 0"
        )
    return training, np.sort(np.asarray(held_out, dtype=np.int64))
