"""The selected episodes, their rows, and the frames of those rows."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from manyhands.errors import DatasetError
from manyhands.lerobot_format.dataset.episode_table import EpisodeTable
from manyhands.lerobot_format.dataset.meta import DatasetMeta


@dataclass(frozen=True)
class Selection:
    """Chosen episodes in dataset order; rows count through them without gaps."""

    episodes: np.ndarray  # Their numbers in the dataset, ascending
    bounds: np.ndarray  # First row and end of each, of shape (episodes, 2)
    first_frames: np.ndarray  # Number of each one's first frame in the complete dataset

    @property
    def num_rows(self) -> int:
        """Frames in all chosen episodes together."""
        return int(self.bounds[-1, 1])

    @property
    def frame_bounds(self) -> np.ndarray:
        """First frame and end of each chosen episode in the complete dataset."""
        bounds: np.ndarray = self.bounds + self._shifts[:, None]
        return bounds

    @property
    def _shifts(self) -> np.ndarray:
        shifts: np.ndarray = self.first_frames - self.bounds[:, 0]
        return shifts

    def places(self, rows: np.ndarray) -> np.ndarray:
        """For each row, the place of its episode among the chosen ones."""
        return np.searchsorted(self.bounds[:, 1], rows, side="right")

    def frames(self, rows: np.ndarray) -> np.ndarray:
        """For each row, the number of its frame in the complete dataset."""
        frames: np.ndarray = rows + self._shifts[self.places(rows)]
        return frames


@dataclass(frozen=True)
class Source:
    """A dataset folder, its metadata, and the selected episodes."""

    root: Path
    meta: DatasetMeta
    selection: Selection


def select_episodes(table: EpisodeTable, wanted: Sequence[int] | None) -> Selection:
    """The wanted episodes, or all; their order in the list does not matter."""
    chosen = range(len(table)) if wanted is None else wanted
    unknown = [number for number in chosen if not 0 <= number < len(table)]
    if unknown:
        raise DatasetError(
            f"--dataset.episodes: unknown episode {', '.join(map(str, unknown[:8]))}; the "
            f"dataset has episodes 0 to {len(table) - 1}"
        )
    episodes = np.unique(np.asarray(chosen, dtype=np.int64))
    lengths = table.lengths[episodes]
    if lengths.sum() == 0:
        raise DatasetError(
            "no frames selected. Set --dataset.episodes=[...] to episodes with frames"
        )
    ends = np.cumsum(lengths)
    bounds = np.stack([ends - lengths, ends], axis=1)
    return Selection(episodes, bounds, table.from_index[episodes])


def split_episodes(
    first_tasks: Sequence[str], episodes: np.ndarray, fraction: float
) -> tuple[np.ndarray, np.ndarray]:
    """Episodes to train on, and those held out: the last ones of every first task, rounded up."""
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
